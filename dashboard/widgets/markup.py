"""Text that came from outside, shown as text where Streamlit would read markup."""

import re

LONGEST = 2000
"""Characters of a text from outside that a page shows; nothing that people name is longer."""
_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>$:&=@\"'^/])")
"""What CommonMark lets a backslash take the meaning of, as far as Streamlit gives it one.

SOURCE: CommonMark 0.31, section 2.4; Streamlit's directives `:name:` and `:color[text]`, and
formulas between `$`.
"""
_JOINER = "\u2060"
"""Word joiner: invisible, takes no room, and no pattern of a link goes over it."""
_BY_ITSELF = re.compile(r"(https?:(?=//)|www(?=\.)|@(?=[\w-]+\.)|:(?=streamlit:))", re.I)
"""What becomes a link or a picture after escapes are read: GitHub's autolinks, `:streamlit:`."""


def plain(text: str) -> str:
    """Text with everything that Markdown would read as markup escaped, on one line."""
    line = " ".join(short(text).split())
    return _PUNCTUATION.sub(r"\\\1", _BY_ITSELF.sub(rf"\1{_JOINER}", line))


def short(text: str, longest: int = LONGEST) -> str:
    """At most so many characters of a text, with an ellipsis where some are left out."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def capital(text: str) -> str:
    """A text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
