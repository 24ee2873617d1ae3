"""The course of an excess in time: constant, transient, periodic or a ramp."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.changepoint import (
    BLOCKS_AT_LEAST,
    FALSE_ALARM,
    NOISE_FLOOR,
    SAME_ABOVE,
    Blocks,
    autocorrelation_factor,
)
from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.analyzer.stats.robust_stats import NOTHING, median_of, quantiles_of

RAMP_STEPS = 8
"""Values of a climb at least, chosen: fewer may be a pause."""
CLIMB_AT_LEAST = 2
"""Values; a jump inside one looks like a climb of that length."""
LIKELIER = float(ndtri(FALSE_ALARM / 2 / 2)) ** 2 / 2
"""Log of the ratio of two likelihoods, one parameter apart, that noise reaches with the chance
FALSE_ALARM in any of two comparisons: of a climb with a jump, and with one that comes to a level
(Wilks, Annals of Mathematical Statistics 1938; Bonferroni)."""
SMOOTH = MAJORITY
LEAST_TURNS = MAJORITY
SHORTEST_PERIOD = 3.5
"""In values. A CPU quota stops its rank every two or three steps (periods of 100 ms), which is no
turn of a fault; and what is sampled fewer than two times a turn cannot be distinguished from
slower turns (Nyquist)."""
CHANCE = 1e-3
"""That noise without turns passes for periodic, chosen: drifts do so far more often."""
TRIED = 97
"""Periods between the neighbours of the best frequency: a part of a turn is moved by a fourth of
it from one to the next."""
ALMOST = 0.995
"""Of the most that a period says, chosen: neighbours that say as much are one peak."""
MULTIPLES = (1, 2, 3)
BINS = 12
"""Parts of a turn at most when periods are compared, chosen."""
CUT = 0.02
"""Share of the values at each end that count as the next one, chosen: a stall is no turn."""


class Shape(StrEnum):
    """The words of the fault plan."""

    CONSTANT = "constant"
    TRANSIENT = "transient"
    PERIODIC = "periodic"
    RAMP = "ramp"


@dataclass(frozen=True, slots=True)
class Turns:
    """A series that goes between two levels at regular distances.

    Attributes:
        period: Values from turn to turn.
        on: (n,) where the mean turn is nearer to its high level.
        low: Median off.
        high: Median on.
    """

    period: float
    on: NDArray[np.bool_]
    low: float
    high: float

    @property
    def share(self) -> float:
        """Share of the values on the high level."""
        return float(self.on.mean())


def words(shape: Shape, share: float = 0.0, every: int | None = None) -> str:
    """What follows the span of an excess; nothing where the span says it all.

    Args:
        shape: How it goes.
        share: Of the steps of its span that a periodic one is in force.
        every: Steps from turn to turn; None = not reported.
    """
    if shape is Shape.PERIODIC:
        turns = "" if every is None else f", every {every} steps"
        return f", on and off at regular distances{turns} ({share:.0%} of the steps)"
    return ", ever more" if shape is Shape.RAMP else ""


def smooth(values: FloatGrid) -> FloatGrid:
    """Running median of SMOOTH steps; the ends stay."""
    if len(values) < SMOOTH:
        return values
    inner = np.median(np.lib.stride_tricks.sliding_window_view(values, SMOOTH), axis=1)
    return np.concatenate([values[:1], inner, values[-1:]])


def ramp_start(values: FloatGrid, stop: int) -> int | None:
    """Where (n,) leaves zero and climbs in a line up to `stop`; None where it does not."""
    knee, climbs, goes_on = best_climb(values, stop)
    return knee if climbs and goes_on else None


def best_climb(values: FloatGrid, stop: int) -> tuple[int | None, bool, bool]:
    """Where the best line up to `stop` leaves zero, whether it climbs there, and to the end.

    The knee with the least absolute deviation from 0 before and from a line through the knee after
    it. By the likelihood of Laplace noise, of which the absolute deviation is the scale, it climbs
    if that is clearly likelier than the best jump, 0 and a constant; and to the end, if no climb to
    a level that stays is clearly likelier. NaN = not known.
    """
    place = np.flatnonzero(np.isfinite(values[:stop]))
    if len(place) < RAMP_STEPS:
        return None, False, False
    series = values[place]
    knees = place[: len(place) - RAMP_STEPS + 1, None]
    rise = np.maximum(place - knees + 1.0, 0.0)
    climbing, slope = _left(series, rise)
    if not (slope > 0).any():
        return None, False, False
    climbing[slope <= 0] = np.inf
    knee = int(np.argmin(climbing))
    jumping, _ = _left(series, place >= place[:, None])
    least = max(float(climbing[knee]), NOTHING)
    if len(place) * float(np.log(max(float(jumping.min()), NOTHING) / least)) < LIKELIER:
        return int(place[knee]), False, False
    begin, top = np.triu_indices(len(rise), 1, len(place))
    stays, _ = _left(series, np.clip(rise[begin], 0.0, rise[begin, top][:, None]))
    staying = len(place) * float(np.log(least / max(float(stays.min()), NOTHING)))
    return int(place[knee]), True, staying < LIKELIER


def _left(series: FloatGrid, shapes: FloatGrid | NDArray[np.bool_]) -> tuple[FloatGrid, FloatGrid]:
    """(K,) absolute deviations of (n,) from each of (K, n) at its best size, and that size."""
    size = (shapes @ series) / (shapes**2).sum(axis=1)
    return np.abs(series - size[:, None] * shapes).sum(axis=1), size


def plateau(values: FloatGrid, high: float) -> int | None:
    """Where (n,) leaves zero in a line to the level `high`, where it stays; None where it jumps.

    The knee and the top of the least absolute deviation, as of `ramp_start`. It must be clearly
    likelier than the best jump.
    """
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < RAMP_STEPS or not high > 0:
        return None
    knee, top = np.triu_indices(len(values) + 1)
    share = (known + 0.5 - knee[:, None]) / np.maximum(top - knee, NOTHING)[:, None]
    left = np.abs(values[known] - high * np.clip(share, 0.0, 1.0)).sum(axis=1)
    jumps = top == knee
    best = int(np.argmin(left))
    # The likelihood of Laplace noise, of which the absolute deviation is the scale.
    likelier = len(known) * float(
        np.log(max(left[jumps].min(), NOTHING) / max(left[best], NOTHING))
    )
    climbs = knee[best] >= BLOCKS_AT_LEAST and top[best] - knee[best] >= CLIMB_AT_LEAST
    return int(knee[best]) if climbs and likelier >= LIKELIER else None


def oscillation(values: FloatGrid) -> Turns | None:
    """The turns of (n,); None where chance alone would show them. NaN = not there.

    Fisher's test for a hidden period (1929): with the largest share g of the variance at one of m
    frequencies, noise reaches g with a chance of at most m (1 - g)^(m - 1). The values folded by
    the period report what part of a turn is high.
    """
    known = np.isfinite(values)
    if known.sum() < max(LEAST_TURNS * SHORTEST_PERIOD, values.size // 2):
        return None
    low, high = quantiles_of(values[known], CUT, 1 - CUT)
    cut = np.clip(values, low, high)
    centred = np.where(known, cut - np.mean(cut[known]), 0.0)
    power = np.abs(np.fft.rfft(centred)[1:]) ** 2
    if not power.sum() > 0:
        return None
    best = int(np.argmax(power))
    share = float(power[best] / power.sum())
    if len(power) * (1 - share) ** (len(power) - 1) > CHANCE:
        return None
    told = np.where(known, cut, np.nan)
    period = _period(told, best + 1)
    if period < SHORTEST_PERIOD or round(len(values) / period, 1) < LEAST_TURNS:
        return None
    on = _fold(told, period)
    if not (on & known).any() or not (~on & known).any():
        return None
    low, high = (median_of(values[side & known]) for side in (~on, on))
    if not high > low or not _alike(cut, on & known, ~on & known, period, (low + high) / 2):
        return None
    return Turns(period, on, low, high)


def _alike(
    values: FloatGrid, on: NDArray[np.bool_], off: NDArray[np.bool_], period: float, middle: float
) -> bool:
    """Whether nearly every turn lies above the middle when it should, and below when it should.

    Slow drifts pass Fisher's test too.
    """
    turn = np.floor(np.arange(len(values)) / period).astype(np.int64)
    right = []
    for part, sign in ((on, 1.0), (off, -1.0)):
        count = np.bincount(turn[part], minlength=turn[-1] + 1)
        total = np.bincount(turn[part], values[part], minlength=turn[-1] + 1)
        mean = total[count > 0] / count[count > 0]
        right.append(float(np.mean(sign * (mean - middle) > 0)))
    return min(right) >= SAME_ABOVE


def _period(values: FloatGrid, turns_seen: int) -> float:
    """Values from turn to turn, near the best frequency: where the folded series says most.

    Epoch folding (Leahy et al. 1983): the variance between the parts of a turn is largest at the
    true period, and that is sharper than the spectrum of few turns. Short pulses have most of their
    power at a multiple of their frequency; the shortest period that says nearly all is theirs.
    """
    most = [_sharpest(values, turns_seen / multiple) for multiple in MULTIPLES]
    enough = SAME_ABOVE * max(said for _, said in most)
    return next(period for period, said in most if said >= enough)


def _sharpest(values: FloatGrid, turns_seen: float) -> tuple[float, float]:
    """(period near so many turns, what it says)."""
    if 2 * turns_seen < 2 * LEAST_TURNS - 1:
        return float(len(values)), 0.0
    near = len(values) / np.linspace(turns_seen - 1, turns_seen + 1, TRIED)
    bins = int(np.clip(round(len(values) / turns_seen), 2, BINS))
    said = np.array([_between(values, period, bins) for period in near.tolist()])
    return float(np.median(near[said >= ALMOST * said.max()])), float(said.max())


def _between(values: FloatGrid, period: float, bins: int) -> float:
    """Variance between the parts of a turn, times the values."""
    mean, count, _ = _folded(values, period, bins)
    there = count > 0
    middle = np.average(mean[there], weights=count[there])
    return float((count[there] * (mean[there] - middle) ** 2).sum())


def _fold(values: FloatGrid, period: float) -> NDArray[np.bool_]:
    """(n,) where the mean turn lies above the middle between its levels."""
    mean, count, place = _folded(values, period, max(round(period), 2))
    told = mean[count > 0]
    above: NDArray[np.bool_] = (mean > (told.min() + told.max()) / 2)[place]
    return above


def _folded(
    values: FloatGrid, period: float, bins: int
) -> tuple[FloatGrid, NDArray[np.int64], NDArray[np.int64]]:
    """(bins,) mean of each part of a turn and how many values it has; (n,) the part of each."""
    place = (np.arange(len(values)) % period / period * bins).astype(np.int64)
    place = np.minimum(place, bins - 1)
    there = np.isfinite(values)
    count = np.bincount(place[there], minlength=bins)
    total = np.bincount(place[there], values[there], minlength=bins)
    return total / np.maximum(count, 1), count, place


# On and off: a series is high again and again, at no regular distance and never for long. Medians
# of blocks do not see what is there in less than half of the windows. Here the level is that of the
# lower windows, the noise is what lies below it, and the excess is a mean.

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
