"""One number of a page: what it is, its value in words, what it is held against."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Number:
    """One number.

    Attributes:
        label: What it is.
        value: As text; lockstep.analyzer.report.figures.UNKNOWN where it is not known.
        delta: Against what it should be; empty = nothing to compare with.
        bad: Whether the difference is to the bad.
        help: What it says.
    """

    label: str
    value: str
    delta: str = ""
    bad: bool = False
    help: str = ""
