"""What a page says first: a sentence, how bad it is, and what to do next."""

from dataclasses import dataclass

from lockstep.dashboard.shapes import Severity


@dataclass(frozen=True, slots=True)
class Said:
    """The answer of a page.

    Attributes:
        text: One sentence, or a few; plain text.
        severity: How bad it is.
        command: To copy, where one is the next step; empty = none.
    """

    text: str
    severity: Severity
    command: str = ""


BADNESS = (
    Severity.OK,
    Severity.NOTE,
    Severity.UNKNOWN,
    Severity.WARNING,
    Severity.CRITICAL,
)
"""From the best to the worst."""
