"""What slow ranks cost the run: step time, GPU-hours, and what a fix would give back.

The counterfactual is a bound from windows: everybody waits for the largest own time of a stage, so
a slow rank adds at most its excess over the next largest of its stage (docs/method/cost.md), and
slow ranks of several stages at most the sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.stats.before_after import column_of
from lockstep.analyzer.stats.changepoint import autocorrelation_factor, column_medians
from lockstep.analyzer.stats.robust_stats import WITHIN, median, median_of, quantiles_of
from lockstep.analyzer.stats.significance import PARTS_AT_MOST, STEPS_AT_LEAST
from lockstep.analyzer.stats.transfers import USUAL_STEP, WAITED

RESAMPLES = 400
BLOCK_WINDOWS = 10
"""Windows are drawn in blocks, because neighbouring steps are alike."""
RARE = 0.05
"""Share of the windows in which all may stand still now and then: chosen."""
MODEL_ERROR = 0.15
"""Of a slowdown less 1, what it may be off by as the steps without culprit are not known: in 87 of
94 runs of an outsider's generator the truth lay within (measured; without it in 74)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Over the windows of the findings: `slowdown` = step time over ideal, with 95 % interval.

    `lost_gpu_hours` = sum over steps of (T - T_ideal) * ranks / 3600 (docs/method/cost.md).
    """

    slowdown: float
    interval: tuple[float, float]
    lost_gpu_hours: float

    @property
    def gain(self) -> float:
        """Share of the step time that a fix gives back."""
        return 1.0 - 1.0 / self.slowdown

    @property
    def gain_interval(self) -> tuple[float, float]:
        """95 % interval of `gain`."""
        low, high = self.interval
        return 1.0 - 1.0 / low, 1.0 - 1.0 / high

    @property
    def lost_interval(self) -> tuple[float, float]:
        """95 % interval of `lost_gpu_hours`: what was spent is measured, so it follows `gain`'s."""
        if self.gain <= 0.0:
            return min(self.lost_gpu_hours, 0.0), max(self.lost_gpu_hours, 0.0)
        spent = self.lost_gpu_hours / self.gain
        low, high = self.gain_interval
        return low * spent, high * spent


def cost(
    grid: Grid,
    findings: Sequence[Finding],
    accused: Sequence[Finding] | None = None,
    *,
    seed: int = 0,
    since: int = 0,
) -> Cost | None:
    """What the slow ranks in `findings` cost together; None without a measured window.

    The interval is a block bootstrap over windows, widened by the findings' own intervals.

    Args:
        grid: The run's windows.
        findings: Of slow ranks.
        accused: Of all that is wrong, where what steps were longer than without is the most that it
            cost; None = by the bounds alone.
        seed: Of the bootstrap.
        since: First window that counts.
    """
    waited = [finding for finding in findings if WAITED in finding.details]
    steady = [finding for finding in findings if WAITED not in finding.details]
    steps_cost = _of_steps(grid, steady, accused, seed, since) if steady else None
    if not waited:
        return steps_cost
    longest = max(waited, key=lambda finding: float(finding.details[WAITED]))
    more = _of_waits(grid, longest, since)
    if steps_cost is None or more is None:
        return steps_cost or more
    both = zip(steps_cost.interval, more.interval, strict=True)
    low, high = (one * other for one, other in both)
    return Cost(
        steps_cost.slowdown * more.slowdown,
        (low, high),
        steps_cost.lost_gpu_hours + more.lost_gpu_hours,
    )


def _of_waits(grid: Grid, finding: Finding, since: int) -> Cost | None:
    """What a finding cost for which all waited in few steps: that time, of all in its span."""
    steps, positions = (grid.to_step - grid.from_step).astype(float), np.arange(len(grid.start))
    span = np.zeros(len(steps), dtype=bool)
    span[finding.first : finding.last] = True
    counts = span & (positions >= since)
    total = float(np.nansum(step_times(grid)[counts] * steps[counts]))
    lost = float(finding.details[WAITED]) * float(steps[counts].sum()) / float(steps[span].sum())
    if not 0 < lost < total:
        return None
    more = lost / (total - lost)
    low, high = (more * (bound - 1.0) / (finding.slowdown - 1.0) for bound in finding.interval)
    return Cost(1.0 + more, (1.0 + low, 1.0 + high), lost * len(grid.ranks) / 3600.0)


def _of_steps(
    grid: Grid,
    findings: Sequence[Finding],
    accused: Sequence[Finding] | None,
    seed: int,
    since: int,
) -> Cost | None:
    """What slow ranks cost in every step."""
    during = spans(grid, findings) & (np.arange(len(grid.start)) >= since)
    wall = step_times(grid)[during]
    if not np.isfinite(wall).any():
        return None
    calm = (None,) * 3 if accused is None else calm_step_seconds(grid, accused)
    ratios = zip(
        *((finding.interval[0], finding.slowdown, finding.interval[1]) for finding in findings),
        strict=True,
    )
    least, middle, most = (
        ideal_step_seconds(
            grid, findings, slowdowns, without, accused=accused, silent_are_slow=silent
        )[during]
        for slowdowns, without, silent in zip(ratios, calm, (True, False, False), strict=True)
    )
    steps = (grid.to_step - grid.from_step)[during].astype(float)
    known = np.isfinite(wall)
    weights = np.where(known, steps, 0.0)
    wall = np.where(known, wall, 0.0)
    lost = float(np.sum(weights * np.where(known, wall - np.nan_to_num(middle), 0.0)))
    draws = _draws(len(wall), seed)
    low = np.quantile(_ratio(wall, least, weights, draws), 0.025)
    high = np.quantile(_ratio(wall, most, weights, draws), 0.975)
    slowdown = float(_ratio(wall, middle, weights, np.arange(len(wall))[None])[0])
    within = min(float(low), slowdown), max(float(high), slowdown)
    return Cost(slowdown, _with_model_error(*within), lost * len(grid.ranks) / 3600.0)


def of_change(
    grid: Grid, finding: Finding, accused: Sequence[Finding] | None = None, *, since: int = 0
) -> Cost | None:
    """What a change of the whole run, or a link, cost.

    Args:
        grid: The run's windows.
        finding: About it.
        accused: Of all that is wrong: a link's window costs no more than it is longer than without;
            None = the finding alone.
        since: First window that counts.
    """
    times = step_times(grid)
    during = spans(grid, [finding]) & (np.arange(len(times)) >= since)
    wall = times[during]
    steps = (grid.to_step - grid.from_step)[during]
    if not np.isfinite(wall).any():
        return None
    total = float(np.nansum(wall * steps))
    calm = np.zeros((3, len(times)))
    if finding.kind == "link":
        calm = np.array(calm_step_seconds(grid, accused or [finding]))
    # Of all together: one that comes and goes is longer than its level, and as it was, in turns.
    known = np.isfinite(wall)
    usual = [min(float(np.sum((each[during] * steps)[known])), total) for each in calm]
    ratios = finding.interval[0], finding.slowdown, finding.interval[1]
    low, slowdown, high = (
        total / max(total / ratio, without) for ratio, without in zip(ratios, usual, strict=True)
    )
    within = _with_model_error(low, high) if finding.kind == "link" else (low, high)
    lost = total * (1.0 - 1.0 / slowdown)
    return Cost(slowdown, within, lost * len(grid.ranks) / 3600.0)


def _with_model_error(low: float, high: float) -> tuple[float, float]:
    return 1.0 + (low - 1.0) * (1.0 - MODEL_ERROR), 1.0 + (high - 1.0) * (1.0 + MODEL_ERROR)


def bill(
    grid: Grid, slow: Sequence[Finding], whole: Finding | None, *, since: int = 0
) -> Cost | None:
    """What slow ranks and a link cost, or the whole run's change; None without a known step time.

    Args:
        grid: The run's windows.
        slow: Findings of slow ranks, which explain a change of the whole run as well.
        whole: The finding about the whole run, or a link.
        since: First window that counts.
    """
    if slow and whole is not None and whole.kind == "link":
        return _together(grid, slow, whole, since)
    if slow:
        return cost(grid, slow, slow, since=since)
    if whole is not None:
        return of_change(grid, whole, since=since)
    if (~grid.masked).any() and np.isfinite(grid.time["wall"]).any():
        return Cost(1.0, (1.0, 1.0), 0.0)
    return None


def _together(grid: Grid, slow: Sequence[Finding], link: Finding, since: int) -> Cost | None:
    """What slow ranks and a link cost: together where both are, and at most what is longer.

    There each costs its share of what the other left.
    """
    accused = [*slow, link]
    one = cost(grid, slow, accused, since=since)
    other = of_change(grid, link, accused, since=since)
    if one is None or other is None:  # as of windows in which only one of them is
        return one or other
    late = np.arange(len(grid.start)) >= since
    during, hours = spans(grid, accused) & late, len(grid.ranks) / 3600.0
    every = np.nan_to_num(step_times(grid) * (grid.to_step - grid.from_step)) * late
    mine, its = spans(grid, slow), spans(grid, [link])
    alone = float(every[mine].sum()) * float(every[its].sum()) * hours
    both = float(every[mine & its].sum()) / alone if alone > 0 else 0.0
    seconds, spent = every[during], float(every[during].sum()) * hours
    lost = []
    for calm, ranks, links in zip(
        calm_step_seconds(grid, accused),
        (one.lost_interval[0], one.lost_gpu_hours, one.lost_interval[1]),
        (other.lost_interval[0], other.lost_gpu_hours, other.lost_interval[1]),
        strict=True,
    ):
        usual = calm[during] * (grid.to_step - grid.from_step)[during]
        longer = float(np.sum((seconds - usual)[seconds > 0])) * hours
        lost.append(min(ranks + links - ranks * links * both, max(longer, 0.0)))
    low, middle, high = (spent / (spent - each) for each in lost)
    return Cost(middle, (min(low, middle), max(high, middle)), lost[1])


def ideal_step_seconds(
    grid: Grid,
    findings: Sequence[Finding],
    slowdowns: Sequence[float],
    calm: FloatGrid | None = None,
    *,
    accused: Sequence[Finding] | None = None,
    silent_are_slow: bool = False,
) -> FloatGrid:
    """(W,) seconds per step had the findings' ranks not been slow by `slowdowns`.

    Together they save no more than steps are longer than `calm`, (W,) seconds while nobody was
    slow: a pipeline hides some of what its stages are longer by, and only measured times tell how
    much. None = what the bounds say. Ranks of whom nothing is known are taken to be as the others,
    or as slow as healthy parts may be. The work of a window is what all others do that nobody
    accuses; `accused` = of all that is wrong, None = the findings.
    """
    columns = [column_of(grid, finding.rank) for finding in findings]
    own = grid.time["own"]
    if silent_are_slow:
        own = _supposed(grid, [column for column in columns if column is not None])
    # What a checkpoint or an evaluation takes is no level of a step.
    known = np.isfinite(own) & ~grid.masked[:, None]
    fixed, work = own.copy(), _common_work(grid, accused or findings)
    work = np.where(work > 0, work, np.nan_to_num(median_of(work[work > 0]), nan=1.0))
    for finding, slowdown in zip(findings, slowdowns, strict=True):
        column = column_of(grid, finding.rank)
        span = slice(finding.first, finding.last)
        if column is not None and known[span, column].any() and USUAL_STEP not in finding.details:
            # A level, not a ratio: a CPU quota makes every second step three times as long.
            level = np.mean((own[:, column] / work)[span], where=known[span, column])
            usual = work[span] * level / max(slowdown, 1.0)
            fixed[span, column] = np.minimum(fixed[span, column], usual)
    own = own + _longer_exchanges(grid, findings, slowdowns)
    stages = np.array([info.pp for info in grid.ranks])
    saved = np.zeros(len(own))
    for stage in np.unique(stages):
        saved += _largest(own[:, stages == stage]) - _largest(fixed[:, stages == stage])
    times, during = step_times(grid), spans(grid, findings)
    if calm is None:
        return times - saved
    # Of all together: who waits for a pause may do so in the step after it.
    longer, all_of_it = (
        float(np.nansum((seconds * (grid.to_step - grid.from_step))[during]))
        for seconds in (times - calm, saved)
    )
    share = min(max(longer, 0.0) / all_of_it, 1.0) if all_of_it > 0 else 1.0
    return times - saved * share


def _longer_exchanges(
    grid: Grid, findings: Sequence[Finding], slowdowns: Sequence[float]
) -> FloatGrid:
    """(W, R) seconds per step by which exchanges inside a rank's group are longer.

    No own time has them; the slowdown of such a finding is that of a usual step.
    """
    longer = np.zeros((len(grid.start), len(grid.ranks)))
    for finding, slowdown in zip(findings, slowdowns, strict=True):
        usual = finding.details.get(USUAL_STEP)
        if usual is not None:
            members = np.isin([info.rank for info in grid.ranks], finding.details["ranks"])
            cells = longer[finding.first : finding.last, members]
            cells = np.maximum(cells, usual * max(slowdown - 1.0, 0.0))
            longer[finding.first : finding.last, members] = cells
    return longer


def _supposed(grid: Grid, named: Sequence[int]) -> FloatGrid:
    """(W, R) own times, where a rank's is not known as long as a healthy part's may be.

    Of the ranks that are named only what is known counts.
    """
    own = grid.time["own"].copy()
    stages = np.array([info.pp for info in grid.ranks])
    for stage in np.unique(stages):
        mine = np.flatnonzero(stages == stage)
        usual = column_medians(own[:, mine].T)[:, None] * np.exp(PARTS_AT_MOST)
        others = np.setdiff1d(mine, named)
        own[:, others] = np.where(np.isfinite(own[:, others]), own[:, others], usual)
    return own


def spans(grid: Grid, findings: Sequence[Finding]) -> NDArray[np.bool_]:
    """(W,) unmasked windows inside any of the findings."""
    inside = np.zeros(len(grid.start), dtype=bool)
    for finding in findings:
        inside[finding.first : finding.last] = True
    return inside & ~grid.masked


def step_times(grid: Grid) -> FloatGrid:
    """(W,) median over ranks of wall seconds per step; NaN where nobody answered."""
    return median(grid.time["wall"], 1)


def calm_step_seconds(
    grid: Grid, accused: Sequence[Finding]
) -> tuple[FloatGrid, FloatGrid, FloatGrid]:
    """Three times (W,) seconds per step while nobody of some was slow, with each window's work.

    The longest one, the likeliest and the shortest: the mean, and its 95 % interval, of what such
    steps take beside the middle own time of all ranks that nobody accuses (of a link: of all), and
    that time. More work, as of more micro-batches, makes neither exchanges nor the bubbles of a
    pipeline longer. A single stand-still is no level: the RARE longest windows are cut, and what
    that takes off is in the longest one. Where there are too few such steps, or nobody else told,
    0; with stages the longest one is infinite, for then nothing shows how much a pipeline hides.
    """
    times, steps = step_times(grid), (grid.to_step - grid.from_step).astype(float)
    common = _common_work(grid, accused)
    calm = ~grid.masked & ~spans(grid, accused) & (times > 0) & (common > 0)
    if steps[calm].sum() < STEPS_AT_LEAST or calm.sum() < 2:
        nothing, staged = np.zeros(len(times)), len({info.pp for info in grid.ranks}) > 1
        return np.full(len(times), np.inf) if staged else nothing, nothing, nothing
    beside, weight = (times - common)[calm], steps[calm] / steps[calm].sum()
    (rarely,) = quantiles_of(beside, 1 - RARE)
    usual = np.minimum(beside, rarely)
    level = float(np.sum(weight * usual))
    noise = (usual - level) * np.sqrt(weight)
    off = WITHIN * float(np.sqrt(np.sum(noise**2) / len(usual))) * autocorrelation_factor(noise)
    longest, likeliest, shortest = (
        np.where(np.isfinite(common), np.maximum(common + each, 0.0), 0.0)
        for each in (level + off + float(np.sum(weight * (beside - usual))), level, level - off)
    )
    return longest, likeliest, shortest


def _common_work(grid: Grid, accused: Sequence[Finding]) -> FloatGrid:
    """(W,) middle own seconds per step of all ranks that nobody accuses; NaN = not known."""
    named = {finding.rank for finding in accused}
    others = [c for c, info in enumerate(grid.ranks) if info.rank not in named]
    return column_medians(grid.time["own"][:, others].T)


def _largest(cells: FloatGrid) -> FloatGrid:
    largest: FloatGrid = np.max(np.where(np.isfinite(cells), cells, 0.0), axis=1, initial=0.0)
    return largest


def _draws(count: int, seed: int) -> NDArray[np.int64]:
    """(RESAMPLES, ~count) indices of windows, drawn in blocks with replacement."""
    width = min(BLOCK_WINDOWS, count)
    dice = np.random.default_rng(seed)
    starts = dice.integers(0, count - width + 1, size=(RESAMPLES, -(-count // width)))
    return (starts[:, :, None] + np.arange(width)).reshape(RESAMPLES, -1)


def _ratio(
    wall: FloatGrid, without: FloatGrid, weights: FloatGrid, draws: NDArray[np.int64]
) -> FloatGrid:
    """(draws,) mean step time over mean ideal step time."""
    spent = (wall * weights)[draws].sum(axis=1)
    wanted = (np.nan_to_num(without) * weights)[draws].sum(axis=1)
    ratio: FloatGrid = np.where(wanted > 0, spent / np.where(wanted > 0, wanted, 1.0), 1.0)
    return ratio
