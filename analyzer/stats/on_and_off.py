"""A series that is high again and again, at no regular distance and never for long.

Medians of blocks do not see what is there in less than half of the windows. Here the level is that
of the lower windows, the noise is what lies below it, and the excess is a mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.changepoint import NOISE_FLOOR, Blocks, autocorrelation_factor
from lockstep.analyzer.stats.robust_stats import quantiles_of

WINDOWS_AT_LEAST = 40
EPISODES_AT_LEAST = 4
"""Chosen, as WINDOWS_AT_LEAST: fewer are single stalls, and healthy hard fleets (seeds 71000 to
84000 of the simulator) then named nobody."""
ON_SIGMAS = 4.0
"""From where a window is high, chosen: noise does so in one of 30,000."""
USUAL = 0.3
"""Share of the windows that are not high for certain, chosen: their highest is the usual level."""
BELOW = float(ndtri(USUAL) - ndtri(USUAL / 2))
"""Deviations between these quantiles of a Gaussian."""


@dataclass(frozen=True, slots=True)
class OnAndOff:
    """How a series goes.

    Attributes:
        gain: (n,) above the usual level; 0 where it is not known.
        on: (n,) whether it is high.
        mean: Of the gain, over all.
        error: Standard error of `mean` by the noise below the usual level.
        widening: By how much that is larger for the likeness of neighbours, its own turns included.
        begin, stop: Where most of the gain is; `stop` is None where the next is not overdue.
        inside: Mean gain there.
        episodes: How often it becomes high there.
    """

    gain: FloatGrid
    on: NDArray[np.bool_]
    mean: float
    error: float
    widening: float
    begin: int
    stop: int | None
    inside: float
    episodes: int


def on_and_off(series: FloatGrid, *, least: float, most: float) -> OnAndOff | None:
    """How (n,) goes, or None where too little of it is known.

    Args:
        series: NaN = not known.
        least: Above the usual level, from which a window can be high.
        most: That one window counts for: a pause of a minute is no row of bursts.
    """
    there = series[np.isfinite(series)]
    if len(there) < WINDOWS_AT_LEAST:
        return None
    base, low = quantiles_of(there, USUAL, USUAL / 2)
    sigma = max((base - low) / BELOW, NOISE_FLOOR)
    gain = np.clip(np.nan_to_num(series - base, nan=0.0), -most, most)
    on = gain > max(ON_SIGMAS * sigma, least)
    mean = float(np.mean(gain))
    widening = autocorrelation_factor(np.minimum(gain, ON_SIGMAS * sigma))
    begin, stop = _span(gain, on)
    span = slice(begin, max(stop, begin + 1))
    moments = np.flatnonzero(on[span])
    longest = int(np.diff(moments).max()) if len(moments) > 1 else stop - begin
    return OnAndOff(
        gain=gain,
        on=on,
        mean=mean,
        error=sigma * widening / float(np.sqrt(len(gain))),
        widening=widening,
        begin=begin,
        stop=None if len(gain) - stop <= 2 * longest else stop,
        inside=float(np.mean(gain[span])),
        episodes=int(np.sum(np.diff(on[span].astype(int), prepend=0) == 1)),
    )


def stretches(true: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """First and stop of each stretch of true values."""
    edges = np.flatnonzero(np.diff(true, prepend=False, append=False))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _span(gain: FloatGrid, on: NDArray[np.bool_]) -> tuple[int, int]:
    """From the first to the last high window of where most of the gain is.

    That is the largest sum of what lies above the middle between all windows' mean and that of
    those that are not high (maximum subarray).
    """
    usual = float(np.mean(gain[~on])) if not on.all() else 0.0
    total = np.concatenate([[0.0], np.cumsum(gain - (usual + float(np.mean(gain))) / 2)])
    stop = int(np.argmax(total - np.minimum.accumulate(total)))
    begin = int(np.argmin(total[: stop + 1]))
    high = np.flatnonzero(on[begin:stop])
    return (begin + int(high[0]), begin + int(high[-1]) + 1) if high.size else (begin, stop)


def blocks_of(groups: Blocks, first: int, last: int | None) -> tuple[int, int]:
    """The blocks of windows `first` to `last` (None = the end), as [first, last)."""
    begins = np.array([members[0] for members in groups.members])
    block = max(int(np.searchsorted(begins, first, side="right")) - 1, 0)
    stop = len(groups) if last is None else int(np.searchsorted(begins, last))
    return block, max(stop, block + 1)
