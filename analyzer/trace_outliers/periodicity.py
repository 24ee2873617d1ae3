"""Which series go up and down between two levels at regular distances."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analyzer.operations import Flags, Floats, Ints
from analyzer.trace_outliers.spans import FLOOR

APART = 8.0
"""Deviations around them that the two levels lie apart; the best cut of noise makes 3 to 5."""
APART_USUAL = 6.0
"""The same in deviations of the middle series: some series has two levels by luck."""
FEWEST = 4
"""Series of which the middle one tells what is usual."""
FEWEST_STEPS = 10
LEAST_TURNS = 3
REGULAR = 0.35
"""Largest spread of the distances between turns, as a share of their mean."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A series of two levels.

    Attributes:
        on: (S,) where it is on the high one.
        low: Its median off.
        high: Its median on.
        noise: Its deviation around both.
    """

    on: Flags
    low: float
    high: float
    noise: float


def find_beats(series: Floats, usual: Floats) -> Mapping[int, Beat]:
    """Row -> its beat, for the rows of (N, S) that have one; `usual` is (N,) their noise by step.

    The two levels are those of the best cut (Otsu 1979): the largest distance of two means weighed
    by their sizes. It must begin and end LEAST_TURNS times.
    """
    found: dict[int, Beat] = {}
    if series.shape[1] < FEWEST_STEPS:
        return found
    least = APART_USUAL * float(np.median(usual)) if len(usual) >= FEWEST else 0.0
    known = np.nan_to_num(series)
    for row, cut in zip(*_cuts(known), strict=True):
        values = known[row]
        on = values > cut
        low, high = float(np.median(values[~on])), float(np.median(values[on]))
        rest = values - np.where(on, high, low)
        noise = max(float(np.sqrt(np.mean(rest**2))), FLOOR)
        if high - low >= max(APART * noise, least) and _regular(on):
            found[int(row)] = Beat(on, low, high, noise)
    return found


def _cuts(series: Floats) -> tuple[Ints, Floats]:
    """The rows whose best cut lies far outside the noise, and those cuts."""
    ordered = np.sort(series, axis=1)
    steps = series.shape[1]
    size = np.arange(1, steps)
    total = np.cumsum(ordered, axis=1)
    below = total[:, :-1] / size
    above = (total[:, -1:] - total[:, :-1]) / (steps - size)
    weighed = (above - below) * np.sqrt(size * (steps - size)) / steps
    best = np.argmax(weighed, axis=1)
    rows = np.arange(len(series))
    cut = (ordered[rows, best] + ordered[rows, best + 1]) / 2
    gap = above[rows, best] - below[rows, best]
    spread = np.abs(series - np.where(series > cut[:, None], above[rows, best][:, None],
                                      below[rows, best][:, None]))  # fmt: skip
    far = np.flatnonzero(gap >= APART / 2 * np.maximum(np.median(spread, axis=1), FLOOR))
    return far, cut[far]


def _regular(on: Flags) -> bool:
    rises = np.flatnonzero(on & ~np.concatenate([[False], on[:-1]]))
    falls = np.flatnonzero(~on & np.concatenate([[False], on[:-1]]))
    if min(len(rises), len(falls) + 1) < LEAST_TURNS:
        return False
    between = np.diff(rises)
    return bool(between.std() <= REGULAR * between.mean())
