"""How old the newest number of a source is, and whether that is too old."""

import math

from lockstep.dashboard.shapes import Answer

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
    told = answer.scrape_seconds
    return told if math.isfinite(told) and told > 0 else UNKNOWN_SCRAPE_SECONDS


def age(answer: Answer) -> str:
    """How long ago the newest number is from, in words."""
    return duration(max(0.0, answer.now - (answer.at if answer.at is not None else answer.now)))


def duration(seconds: float) -> str:
    """A length of time, in the largest unit that keeps it readable."""
    for limit, unit, word in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {word}"
    return f"{seconds / 86400:.0f} days"
