"""Change points: spans in which a noisy series is higher, robust, corrected for the search.

Steps are averaged into blocks, because own time can be bimodal inside a block (a CPU quota stops
every second step) and its outliers are heavy; spans of blocks are compared by their medians,
because whole blocks can be outliers too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.analyzer.stats.robust_stats import median, median_of, quantiles_of
from lockstep.collector.contract.robust import MAD_TO_SIGMA

BLOCKS_AT_MOST = 40
"""Chosen: finer ones show the onset no better, which single windows show, and all their spans
are tried."""
BLOCK_STEPS_AT_LEAST = 5
"""Two blocks are the ten iterations that GREYHOUND's change points are apart at least (ATC'25)."""
SPIKE = 4.0
"""A step counts for at most this many times the rank's median, chosen: one scheduler stall of a
second must not carry a whole block, and few faults cost more."""
MEDIAN_EFFICIENCY = math.sqrt(math.pi / 2)
"""Standard error of a median over that of a mean, Gaussian."""
FALSE_ALARM = 1e-2
"""Chance that a healthy run gives any finding, over all ranks and spans searched: chosen, the one
from which every other chance follows."""
NOISE_FLOOR = 0.002
"""Block noise is never taken as smaller than this, chosen: no clock or scheduler is better."""
TAILS = 3.0
"""Robust deviations at which a block is cut while spans are searched (Huber, Robust Statistics,
1981)."""
SCORES_AT_LEAST = 8
"""From which their spread is known at all, chosen; among fewer a culprit moves those of its
victims."""
GUMBEL_MAD = 0.767049
"""Median absolute deviation of Gumbel's distribution over its scale."""
BLOCKS_AT_LEAST = MAJORITY
"""Of a span, and beside it: of fewer one wild block is the half."""
OUTSIDE_AT_LEAST = 2 * BLOCKS_AT_LEAST
"""Blocks outside a span from which their spread alone is taken as the healthy noise."""
SAME_ABOVE = 0.8
"""Share of a span's blocks, or of turns, that must lie on their side of the middle between the two
levels: chosen, as a corrected CPU quota fades by half."""
COLUMNS_ENOUGH = 4
"""Columns whose median MAD is as good as a deviation: that of one is as of about a third of its
values (efficiency 0.37; Rousseeuw and Croux, JASA 1993), and of two columns both hold the same
difference."""
DECILE = 0.1
"""Noise counts up to its outer deciles where neighbours are compared, chosen: two wild blocks
beside each other are no memory."""
LIKENESS_AT_MOST = 0.8
"""Of neighbouring blocks, chosen: so few blocks cannot distinguish more from a change of level."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Windows in groups: block b holds the windows `members[b]`, `steps` steps on average."""

    members: tuple[NDArray[np.int64], ...]
    steps: float

    def __len__(self) -> int:
        return len(self.members)

    def first(self, block: int) -> int:
        """First window of a block."""
        return int(self.members[block][0])

    def stop(self, block: int) -> int:
        """Window after the last of the block before `block`."""
        return int(self.members[block - 1][-1]) + 1


@dataclass(frozen=True, slots=True)
class Shift:
    """A span of blocks [first, last) of one column that lies higher than the rest of it.

    Attributes:
        effect: Median inside minus median outside, in the unit of the series.
        error: Standard error of `effect`, with the spread inside the span.
        score: effect over the standard error that it would have by chance.
        critical: The score that chance exceeds with FALSE_ALARM in any column and span.
        inside: Median inside.
        freedom: Degrees of freedom of `score`; None = those of its blocks beside other columns'.
    """

    column: int
    first: int
    last: int
    effect: float
    error: float
    score: float
    critical: float
    inside: float
    freedom: float | None = None


def blocks(
    grid: Grid, by: str = "own", least: float = BLOCK_STEPS_AT_LEAST, most: int = BLOCKS_AT_MOST
) -> Blocks:
    """The unmasked windows of a Grid in at most `most` groups of about equal steps.

    Each holds at least `least` steps; a short last window joins the one before.

    Args:
        grid: The run's windows.
        by: The time (of Grid.time) that some rank must have reported in a window.
        least: Steps of a block.
        most: Blocks.
    """
    usable = np.flatnonzero(~grid.masked & np.isfinite(grid.time[by]).any(axis=1))
    if usable.size == 0:
        return Blocks((), 0.0)
    steps = (grid.to_step - grid.from_step)[usable]
    least = max(float(least), float(steps.sum()) / most)
    members: list[list[int]] = [[]]
    held = 0.0
    for window, count in zip(usable.tolist(), steps.tolist(), strict=True):
        if held >= least:
            members.append([])
            held = 0.0
        members[-1].append(window)
        held += count
    if len(members) > 1 and held < max(least, np.median(steps)) / 2:
        rest = members.pop()
        members[-1].extend(rest)
    return Blocks(
        tuple(np.array(group, dtype=np.int64) for group in members),
        float(steps.sum()) / len(members),
    )


def block_means(cells: FloatGrid, groups: Blocks, spike: float = SPIKE) -> FloatGrid:
    """(B, R) means of (W, R) cells, cut at `spike` medians; NaN where under half answered."""
    with np.errstate(invalid="ignore"):
        cut = np.minimum(cells, spike * column_medians(cells)) if np.isfinite(spike) else cells
    means = np.full((len(groups), cells.shape[1]), np.nan)
    for block, members in enumerate(groups.members):
        inside = cut[members]
        there = np.isfinite(inside)
        count = there.sum(axis=0)
        total = np.where(there, inside, 0.0).sum(axis=0)
        known = 2 * count >= len(members)
        means[block, known] = total[known] / count[known]
    return means


def column_medians(cells: FloatGrid) -> FloatGrid:
    """(R,) median over the rows of (W, R) that answered; NaN for a column that never did."""
    return median(cells, 0)


def clearest_spans(
    series: FloatGrid,
    *,
    shortest: int = BLOCKS_AT_LEAST,
    baseline: int = BLOCKS_AT_LEAST,
    peers: int = 0,
    noise: float = NOISE_FLOOR,
    pooled: bool = False,
) -> list[Shift]:
    """The clearest upward span of each column of (B, R), for columns with enough blocks.

    Every span of at least `shortest` blocks that leaves `baseline` blocks outside is tried. What
    chance can do is shown by the healthy blocks, those outside each column's best span: their
    MAD, at least the median column's, widened by lag-1 autocorrelation. The blocks inside do not
    count, because a fault need not be steady (a corrected CPU quota fades by half, measured). The
    threshold is Student's with Bonferroni over columns and spans, and no less than the highest of
    so many columns usually is, where each has enough `peers` that a culprit does not lift the
    scores of those who are compared with it.

    Args:
        series: (B, R).
        shortest: Blocks of a span.
        baseline: Blocks outside it.
        peers: How many others each is compared with.
        noise: Log noise of a block at least.
        pooled: Whether all columns share one noise, estimated from all blocks.
    """
    count, known = len(series), np.isfinite(series)
    spans = {
        column: _between_levels(series[:, column], first, last, shortest, baseline)
        for column, (first, last) in _likeliest(series, shortest, baseline, noise).items()
    }
    if not spans:
        return []
    tried = sum(count - length + 1 for length in range(shortest, count - baseline + 1))
    healthy = {c: _healthy(series[:, c], known[:, c], span) for c, span in spans.items()}
    sigmas = {c: MAD_TO_SIGMA * median_of(np.abs(rest)) for c, rest in healthy.items()}
    widenings = {c: autocorrelation_factor(rest) for c, rest in healthy.items()}
    typical = median_of(np.array([*sigmas.values()]))
    wide = median_of(np.array([*widenings.values()]))
    if len(spans) < SCORES_AT_LEAST:
        typical = min(typical, _by_neighbours(series[:, list(spans)], wide))
    freedom = freedom_of(count, len(spans))
    if pooled:
        sides = (
            series[each & known[:, c], c] for c, span in spans.items() for each in (span, ~span)
        )
        typical, freedom = _pooled([each for each in sides if len(each) > 1])
        sigmas, widenings = dict.fromkeys(spans, typical), dict.fromkeys(spans, wide)
    asked = _quantile(freedom, len(spans) * tried)
    found = []
    for column, within in spans.items():
        inside, outside = within & known[:, column], ~within & known[:, column]
        level = median_of(series[inside, column])
        effect = level - median_of(series[outside, column])
        sigma = max(sigmas[column], typical, noise) * max(widenings[column], wide)
        spread = MAD_TO_SIGMA * median_of(np.abs(series[inside, column] - level))
        chance = median_error(sigma, inside.sum()), median_error(sigma, outside.sum())
        error = float(np.hypot(max(chance[0], median_error(spread, inside.sum())), chance[1]))
        score = effect / float(np.hypot(*chance))
        span = np.flatnonzero(within)
        stop = int(span[-1]) + 1
        if not known[stop:, column].any():
            stop = count  # what nobody knows is no end
        found.append(
            Shift(
                column, int(span[0]), stop, effect, error, score, asked, level,
                freedom if pooled else None,
            )
        )  # fmt: skip
    if peers + 1 >= SCORES_AT_LEAST:
        # What falls back in between is no span: of a pause now and then all have high scores.
        held = [shift.score for shift in found if sustained(series, shift)]
        asked = max(asked, usual_highest(held))
    return [replace(shift, critical=asked) for shift in found]


def _by_neighbours(series: FloatGrid, wide: float) -> float:
    """The middle column's noise by how neighbouring blocks differ, in which no level shows.

    Among few, the levels of those who are compared with a culprit move as well. Neighbours that are
    alike differ by less: of an AR(1) with the factor rho by sqrt(2 (1 - rho)) deviations.

    Args:
        series: (B, R).
        wide: sqrt((1 + rho) / (1 - rho)), as of `autocorrelation_factor`.
    """
    apart = column_medians(np.abs(np.diff(series, axis=0)))
    apart = apart[np.isfinite(apart)]
    if not apart.size:
        return float("inf")
    rho = (wide**2 - 1) / (wide**2 + 1)
    return MAD_TO_SIGMA * median_of(apart) / float(np.sqrt(2 * (1 - rho)))


def usual_highest(scores: Sequence[float]) -> float:
    """What the highest of some scores reaches with the chance FALSE_ALARM, by how they lie.

    The best score of a column over all spans is a maximum, so it has Gumbel's distribution. Where
    levels wander (noise with a long memory) all columns' best are high, and one that is higher says
    little. Its two parameters by median and median absolute deviation: a few culprits move neither.
    -inf where too few scores show it.
    """
    if len(scores) < SCORES_AT_LEAST:
        return -np.inf
    told = np.array(scores)
    middle = median_of(told)
    scale = median_of(np.abs(told - middle)) / GUMBEL_MAD
    mode = middle + scale * float(np.log(np.log(2.0)))
    return mode - scale * float(np.log(-np.log1p(-FALSE_ALARM / len(scores))))


def whole_run_spans(
    series: FloatGrid,
    noise: float = NOISE_FLOOR,
    least: int = BLOCKS_AT_LEAST,
    *,
    pooled: bool = False,
) -> list[Shift]:
    """Each column of (B, R) as one span against zero: for ranks that were high from the start.

    Args:
        series: (B, R).
        noise: Log noise of a block at least.
        least: Blocks that are known of a column.
        pooled: Whether all columns share one noise, estimated from all blocks.
    """
    columns = {
        column: values[np.isfinite(values)]
        for column, values in enumerate(series.T)
        if np.isfinite(values).sum() >= least
    }
    if not columns:
        return []
    levels = {column: median_of(values) for column, values in columns.items()}
    rests = {column: values - levels[column] for column, values in columns.items()}
    sigmas = {c: MAD_TO_SIGMA * median_of(np.abs(rest)) for c, rest in rests.items()}
    widenings = {c: autocorrelation_factor(rest) for c, rest in rests.items()}
    typical, freedom = median_of(np.array([*sigmas.values()])), freedom_of(len(series), len(sigmas))
    if pooled:
        typical, freedom = _pooled(list(columns.values()))
        sigmas = dict.fromkeys(sigmas, typical)
        widenings = dict.fromkeys(sigmas, median_of(np.array([*widenings.values()])))
    asked = _quantile(freedom, len(sigmas))
    found = []
    for column, level in levels.items():
        sigma = max(sigmas[column], typical, noise) * widenings[column]
        error = median_error(sigma, len(columns[column]))
        found.append(
            Shift(
                column, 0, len(series), level, error, level / error, asked, level,
                freedom if pooled else None,
            )
        )  # fmt: skip
    return found


def _pooled(columns: Sequence[FloatGrid]) -> tuple[float, float]:
    """The noise of a block, from all columns' blocks, and the degrees of freedom of a score.

    By the MAD of what each mean leaves: of n blocks sqrt((n - 1) / n) of the noise, which a MAD of
    few about their own median is not.
    """
    rests = [(each - each.mean()) * np.sqrt(len(each) / (len(each) - 1)) for each in columns]
    sigma = MAD_TO_SIGMA * median_of(np.abs(np.concatenate(rests)))
    return sigma, freedom_of(sum(len(each) - 1 for each in columns), 1)


def sustained(series: FloatGrid, shift: Shift) -> bool:
    """Whether the span stays high: few of its blocks fall below the middle of the two levels."""
    inside = series[shift.first : shift.last, shift.column]
    inside = inside[np.isfinite(inside)]
    middle = shift.inside - shift.effect / 2
    return bool(inside.size and np.mean(inside > middle) >= SAME_ABOVE)


def refine(steps: FloatGrid, low: float, high: float) -> tuple[int, int]:
    """Where in (n,) a span of level `high` begins and ends inside level `low`.

    The span with the largest sum of distances above the middle (maximum subarray), which is the
    most likely one for two levels; values far outside both levels count no more than twice the
    distance. NaN counts nothing.
    """
    gap = high - low
    gain = np.clip(np.nan_to_num(steps - (low + high) / 2, nan=0.0), -gap, 2 * gap)
    total = np.concatenate([[0.0], np.cumsum(gain)])
    lowest = np.minimum.accumulate(total)
    stop = int(np.argmax(total - lowest))
    begin = int(np.argmin(total[: stop + 1]))
    return begin, max(stop, begin)


def _between_levels(
    values: FloatGrid, first: int, last: int, shortest: int, baseline: int
) -> NDArray[np.bool_]:
    """(B,) a span moved to where the values cross the middle of its two levels, while it shrinks.

    As it was where that leaves less than half of it or of the rest, or too few blocks.
    """
    place, there = np.arange(len(values)), np.isfinite(values)
    span: NDArray[np.bool_] = (place >= first) & (place < last)
    # Its levels move with it: each turn leaves out what lies nearer to the lower one.
    while True:
        low, high = (median_of(values[side & there]) for side in (~span, span))
        if not high > low:
            return span
        begin, stop = refine(values, low, high)
        moved: NDArray[np.bool_] = (place >= begin) & (place < stop)
        sides = ((moved, span, shortest), (~moved, ~span, baseline))
        fair = all(
            2 * (now & then).sum() >= then.sum() and (now & there).sum() >= least
            for now, then, least in sides
        )
        if not fair or moved.sum() >= span.sum():
            return moved if fair else span
        span = moved


def _likeliest(
    series: FloatGrid, shortest: int, baseline: int, noise: float
) -> dict[int, tuple[int, int]]:
    """Column -> the upward span [first, last) that explains most of it, by cumulative sums.

    That is the largest difference of the two means over sqrt(1/n + 1/m), as in CUSUM, of values
    that count for TAILS deviations at most: Huber's scores, by which a few wild blocks count for
    what they are (Fearnhead and Rigaill, JASA 2019). They count from the middle; or, of what is at
    the higher of two levels for most of the time, and never far above that, from the lower one.
    """
    middle = column_medians(series)
    steps = np.abs(np.diff(series, axis=0))
    sigma = MAD_TO_SIGMA * column_medians(steps) / np.sqrt(2.0)
    reach = TAILS * np.maximum(np.nan_to_num(sigma), noise)
    level = middle.copy()
    for column in np.flatnonzero(middle - np.fmin.reduce(series, axis=0, initial=np.inf) > reach):
        values = series[np.isfinite(series[:, column]), column]
        lower, upper = quantiles_of(values, DECILE, 1 - DECILE)
        if middle[column] - lower > reach[column] >= upper - middle[column]:
            level[column] = lower
    cut = np.nan_to_num(np.clip(series - level, -reach, reach))
    total, count = (
        np.concatenate([np.zeros((1, series.shape[1])), np.cumsum(each, axis=0)])
        for each in (cut, np.isfinite(series))
    )
    most = np.zeros(series.shape[1])
    first, last = (np.zeros(len(most), dtype=np.int64) for _ in range(2))
    for begin in range(len(series) - shortest + 1):
        high, n = (each[begin + shortest :] - each[begin] for each in (total, count))
        low, m = total[-1] - high, count[-1] - n
        fair = (n >= shortest) & (m >= baseline)
        n, m = np.maximum(n, 1), np.maximum(m, 1)
        gain = np.where(fair, (high / n - low / m) / np.sqrt(1 / n + 1 / m), -np.inf)
        more, best = gain.argmax(axis=0), gain.max(axis=0)
        better = best > most
        first[better], last[better] = begin, begin + shortest + more[better]
        most = np.maximum(most, best)
    return {int(c): (int(first[c]), int(last[c])) for c in np.flatnonzero(most > 0)}


def _healthy(values: FloatGrid, known: NDArray[np.bool_], within: NDArray[np.bool_]) -> FloatGrid:
    """What the fit leaves outside the span; of both sides where too little lies outside."""
    inside, outside = within & known, ~within & known
    rest = values[outside] - median_of(values[outside])
    if len(rest) >= OUTSIDE_AT_LEAST:
        return rest
    return np.concatenate([rest, values[inside] - median_of(values[inside])])


def median_error(sigma: float, count: int) -> float:
    """Standard error of the median of `count` blocks."""
    return MEDIAN_EFFICIENCY * sigma / float(np.sqrt(count))


def autocorrelation_factor(rest: FloatGrid) -> float:
    """sqrt((1 + rho) / (1 - rho)): the standard error of a mean of AR(1) noise over white noise."""
    low, high = quantiles_of(rest, DECILE, 1 - DECILE)
    cut = np.clip(rest, low, high)
    power = float(np.sum(cut**2))
    rho = float(np.sum(cut[1:] * cut[:-1])) / power if power > 0 else 0.0
    rho = min(max(rho, 0.0), LIKENESS_AT_MOST)
    return float(np.sqrt((1 + rho) / (1 - rho)))


def critical_t(count: int, columns: int, tests: int) -> float:
    """Student's quantile at FALSE_ALARM over all tests."""
    return _quantile(freedom_of(count, columns), tests)


def _quantile(freedom: float, tests: int) -> float:
    return float(-stdtrit(freedom, FALSE_ALARM / tests))


def freedom_of(count: int, columns: int) -> float:
    """Degrees of freedom of a score of n blocks beside other columns."""
    return max(count * min(columns / COLUMNS_ENOUGH, 1.0), float(MAJORITY))
