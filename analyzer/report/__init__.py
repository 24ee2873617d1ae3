"""A Diagnosis as a report: one JSON tree, and the formats made from it."""

import json
from collections.abc import Mapping
from typing import Any

FORMATS: tuple[str, ...] = ("html", "md", "json")


def render(tree: Mapping[str, Any], form: str) -> str:
    """The report tree (document.document) as text in one of FORMATS.

    Raises:
        ValueError: Another format.
    """
    # Jinja2 and matplotlib are imported by those who want a page.
    match form:
        case "html":
            from lockstep.analyzer.report.page import page

            return page(tree)
        case "md":
            from lockstep.analyzer.report.markdown import markdown

            return markdown(tree)
        case "json":
            return json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        case _:
            raise ValueError(f"{form!r} is not one of {', '.join(FORMATS)}")
