"""The sentence of a page, its numbers, GPU time and ages: the types that words are made of."""

import math
from dataclasses import dataclass

from lockstep.analyzer.report.figures import UNKNOWN
from lockstep.dashboard.shapes import Answer, Severity


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


# One number of a page: what it is, its value in words, what it is held against.


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


# GPU time as people say it: the unit stands in the label, so that the number is short.

HOUR = 3600.0
SHORT = 0.1
"""GPU-hours below which seconds are told."""


def lost(hours: float | None) -> tuple[str, str]:
    """Label and value of what a run lost.

    Args:
        hours: GPU-hours; None = not known.
    """
    if hours is None:
        return "Lost GPU time", UNKNOWN
    if hours < SHORT:
        return "Lost (GPU-s)", f"{hours * HOUR:.3g}"
    return "Lost (GPU-h)", f"{hours:,.3g}" if hours < 1000 else f"{hours:,.0f}"


# How old the newest number of a source is, and whether that is too old.

STALE_SCRAPES = 3
"""A live source that is silent for so many scrape intervals is stale."""
UNKNOWN_SCRAPE_SECONDS = 15.0
"""Taken where nobody told how often is scraped: Prometheus' own usual choice is 15 s to 1 min."""


def is_stale(answer: Answer) -> bool:
    """Whether a live source has been silent for too long."""
    if not answer.live or answer.at is None:
        return False
    return answer.now - answer.at > STALE_SCRAPES * interval(answer)


def interval(answer: Answer) -> float:
    """Seconds between two scrapes."""
    seconds = answer.scrape_seconds
    return seconds if math.isfinite(seconds) and seconds > 0 else UNKNOWN_SCRAPE_SECONDS


def age(answer: Answer) -> str:
    """How long ago the newest number is from, in words."""
    return duration(max(0.0, answer.now - (answer.at if answer.at is not None else answer.now)))


def duration(seconds: float) -> str:
    """A length of time, in the largest unit that keeps it readable."""
    for limit, unit, word in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {word}"
    return f"{seconds / 86400:.0f} days"
