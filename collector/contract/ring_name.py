"""A name that a ring tells, as of a run: plain enough to be a label, and a part of a file's name.

Anybody who may write to LOCKSTEP_DIR can write a ring, and the collector may be root. So a name is
ASCII letters, digits, `.`, `_` and `-`, has 63 characters at most (DESIGN: the id of a run, and
what fits into the header beside a zero byte), and does not begin with a dot: it is no `..`, and no
hidden file. A reader refuses any other name, and a writer maps its own into the type.
"""

import re
from typing import Self

MAX_CHARACTERS = 63
PATTERN = rf"[A-Za-z0-9_-][A-Za-z0-9._-]{{0,{MAX_CHARACTERS - 1}}}"

_NAME = re.compile(PATTERN, re.ASCII)
_OTHER = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)


class RingName(str):
    """A name of that form.

    Raises:
        ValueError: The text is no such name.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """The text, if it is a name."""
        if not _NAME.fullmatch(text):
            raise ValueError(
                f"{text!r} is no name; names are letters, digits, `.`, `_` and `-`, at most"
                f" {MAX_CHARACTERS}, and do not begin with a dot"
            )
        return super().__new__(cls, text)

    @classmethod
    def mapped(cls, text: str, empty: str) -> Self:
        """The name for any text: every other character is a `-`, and what is too long is cut.

        Args:
            text: As somebody gave it.
            empty: The name where nothing is left.
        """
        return cls(_OTHER.sub("-", text).lstrip(".")[:MAX_CHARACTERS] or empty)
