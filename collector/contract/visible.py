"""Text from outside, as a terminal may show it: what would steer the terminal is spelled out.

A node's name may hold escape sequences that clear the screen, move what was written or set the
clipboard, and bidirectional overrides that show a name in another order than it is compared in
(https://www.unicode.org/reports/tr36).
"""

import logging
import re

HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, without tab and line feed
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"  # direction, or no width
    "\ud800-\udfff]"  # halves of a character, which no terminal can be sent
)
_LINES = str.maketrans({"\n": "\\n", "\t": "\\t"})


def visible(text: str) -> str:
    r"""`text` with every hidden character as JSON spells it: ``\u001b``.

    Line feeds and tabs stay. A JSON document stays the same document.
    """
    return HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible_line(text: str) -> str:
    r"""`visible`, on one line: a name with a line feed must not look like a line of ours."""
    return visible(text).translate(_LINES)


class VisibleFormatter(logging.Formatter):
    """Log records of one line each; only a traceback has more."""

    def format(self, record: logging.LogRecord) -> str:
        """The record, with nothing in it that steers a terminal."""
        shown = super().format(record)
        return visible(shown) if record.exc_info or record.stack_info else visible_line(shown)
