"""Fewer points for a chart, such that no spike and no gap is lost."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.dashboard.shapes import Floats, Lines

MOST_POINTS = 600
"""Of a line: 300 stretches with both ends; a chart is some 750 pixels wide, and each point more is
drawn 33 times on the Run page (tests/benchmarks/dashboard_run_browser.py)."""


def thin(lines: Lines, most: int = MOST_POINTS) -> Lines:
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
    told = list(values.values())
    count = len(told[0]) if told else 0
    # Lines that rise and fall together need no more points than one: begin with many buckets.
    stretches = max((most - 2) // 2, 1)
    while True:
        edges = np.linspace(0, count, min(stretches, count) + 1).astype(np.int64)
        kept = _extremes(told, edges[:-1]) if count else np.zeros(0, dtype=np.int64)
        if len(kept) <= most or stretches == 1:
            return kept, stretches
        stretches = max(int(0.9 * stretches * most / len(kept)), 1)


def _extremes(told: list[Floats], begin: NDArray[np.int64]) -> NDArray[np.int64]:
    picked = [np.array([0, len(told[0]) - 1])]
    for line in told:
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
