"""Moments of a chart: evenly spaced ones of a span, and fewer of many without losing a spike."""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lockstep.dashboard.shapes import Floats, Lines, Span

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


# Fewer points for a chart, such that no spike and no gap is lost.

MOST_DRAWN = 600
"""Of a line: 300 stretches with both ends; a chart is some 750 pixels wide, and each point more is
drawn 33 times on the Run page (tests/benchmarks/dashboard_run_browser.py)."""


def thin(lines: Lines, most: int = MOST_DRAWN) -> Lines:
    """A chart's data with at most `most` moments; each point is a value that was really told.

    The moments are cut into buckets of equal count; of each bucket the lowest and the highest value
    of every line stay at their moments, and one moment of every gap in it. What stays out is said
    in `sampling`.
    """
    count = len(lines.times)
    if count <= most:
        return lines
    kept, stretches = places(lines.values, most)
    words = (
        f"{len(kept)} of {count} moments are drawn: in each of {stretches} stretches the lowest"
        " and the highest value of every line"
    )
    return replace(
        lines,
        times=lines.times[kept],
        values={name: values[kept] for name, values in lines.values.items()},
        steps=None if lines.steps is None else lines.steps[kept],
        sampling=words,
    )


def places(values: Mapping[str, Floats], most: int) -> tuple[NDArray[np.int64], int]:
    """Indices to keep, rising, and into how many buckets the moments were cut.

    Args:
        values: Lines of one length.
        most: At most so many; the first and the last are always among them.
    """
    columns = list(values.values())
    count = len(columns[0]) if columns else 0
    # Lines that rise and fall together need no more points than one: begin with many buckets.
    stretches = max((most - 2) // 2, 1)
    while True:
        edges = np.linspace(0, count, min(stretches, count) + 1).astype(np.int64)
        kept = _extremes(columns, edges[:-1]) if count else np.zeros(0, dtype=np.int64)
        if len(kept) <= most or stretches == 1:
            return kept, stretches
        stretches = max(int(0.9 * stretches * most / len(kept)), 1)


def _extremes(columns: list[Floats], begin: NDArray[np.int64]) -> NDArray[np.int64]:
    picked = [np.array([0, len(columns[0]) - 1])]
    for line in columns:
        silent = np.isnan(line)
        picked.append(_first(np.where(silent, -np.inf, line), begin))
        picked.append(_first(np.where(silent, -np.inf, -line), begin))
        if silent.any():
            picked.append(_first(silent.astype(np.float64), begin))
    return np.unique(np.concatenate(picked))


def _first(line: Floats, begin: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each bucket has its highest value first."""
    highest = np.maximum.reduceat(line, begin)
    lengths = np.diff(np.append(begin, len(line)))
    hits = np.flatnonzero(line == np.repeat(highest, lengths))
    bucket = np.searchsorted(begin, hits, side="right") - 1
    first = np.unique(bucket, return_index=True)[1]
    return hits[first]
