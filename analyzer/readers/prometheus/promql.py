"""Words of PromQL: strings, alternatives, selectors."""

import re
from collections.abc import Iterable


def quoted(text: str) -> str:
    """A string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def one_of(texts: Iterable[str]) -> str:
    """A quoted regular expression that matches these texts and no others."""
    return quoted("|".join(re.escape(text) for text in texts))
