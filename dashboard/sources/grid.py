"""Evenly spaced moments of a span: never more than an HTTP API or a chart can bear."""

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from lockstep.dashboard.shapes import Floats, Span

MOST_POINTS = 2000
"""Of a line: what a screen has pixels, and far below Prometheus' 11,000 (web/api/v1/api.go)."""
LINE_POINTS = 600
"""Of the lines of a page, which are several dozen."""
NICE = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip
"""Seconds of a step: what divides a minute, an hour or a day, so that edges are round moments."""
UNKNOWN_SCRAPE = 15.0
"""Seconds between two scrapes where nobody tells."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Moments `start, start + step, ..., end`, each a multiple of the step.

    Each stands for the step that ends there, so that the first step begins at the span's start or
    before it.
    """

    start: float
    end: float
    step: float

    @property
    def times(self) -> Floats:
        """(T,) unix seconds."""
        count = round((self.end - self.start) / self.step) + 1
        return self.start + self.step * np.arange(count, dtype=np.float64)


def step_of(seconds: float, scrape: float, points: int = LINE_POINTS) -> float:
    """The shortest nice step with which a span has at most so many points.

    Args:
        seconds: Length of the span.
        scrape: Seconds between two scrapes, below which nothing new is seen; NaN = not known.
        points: At most MOST_POINTS.
    """
    scrape = scrape if math.isfinite(scrape) and scrape > 0 else UNKNOWN_SCRAPE
    least = max(scrape, seconds / max(1, min(points, MOST_POINTS) - 2))
    place = bisect_left(NICE, least)
    return float(NICE[place]) if place < len(NICE) else math.ceil(least / NICE[-1]) * NICE[-1]


def duration(seconds: float) -> str:
    """A step in words: `15 s`, `5 min`, `1 h`, `2 days`."""
    for size, word in ((86400, "day"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            count = round(seconds / size)
            return f"{count:,} {word}" + ("s" if word == "day" and count > 1 else "")
    return f"{seconds:g} s"


def grid(span: Span, scrape: float, points: int = LINE_POINTS, now: float = math.inf) -> Grid:
    """Around a span, both ends aligned to the step; nothing after `now`, rounded up to it."""
    step = step_of(span.seconds, scrape, points)
    end = math.ceil(min(span.end, now) / step) * step
    start = min((math.floor(span.start / step) + 1) * step, end)
    return Grid(start, end, step)
