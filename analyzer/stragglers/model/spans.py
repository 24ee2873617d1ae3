"""The shape step: own time is higher from some step on, for a while, or always."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import (
    BLOCKS_AT_LEAST,
    BLOCKS_AT_MOST,
    FALSE_ALARM,
    MEDIAN_EFFICIENCY,
    NOISE_FLOOR,
    Blocks,
    Shift,
    blocks,
    clearest_spans,
    column_medians,
    critical_t,
    refine,
    sustained,
    whole_run_spans,
)
from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.analyzer.stats.robust_stats import (
    BIWEIGHT_EFFICIENCY,
    NOTHING,
    WITHIN,
    biweight,
    median_of,
)
from lockstep.analyzer.stats.significance import PARTS_ON_AVERAGE, STEPS_ABOVE
from lockstep.analyzer.stragglers.model.candidate import OWN_SHARE, Candidate, as_candidate
from lockstep.analyzer.stragglers.model.precision import WINDOWS, Precision
from lockstep.analyzer.stragglers.model.scopes import Scope, Table, View, middles
from lockstep.collector.contract.robust import MAD_TO_SIGMA

FINER = 4
"""Times as many blocks of the whole run, in which three are a fiftieth of it: chosen, as what lasts
for less has seldom cost a percent of it."""
LAST_AT_MOST = 30
"""Of the shortest kind, two to begin with and the rest to tell what is usual."""
SHORTEST = 2
MOST = 0.7
"""Share of single windows above the middle: one long pause lifts a block, not these."""
WINDOWS_AT_LEAST = BLOCKS_AT_LEAST
"""Scraped ones hold several steps each: each is a block."""
APART = PARTS_ON_AVERAGE
"""The smallest excess of a node from the first step on: by that much single parts differ, the
middle of a node's parts by less."""
SAME_PARTS = 0.002
"""Log spread of identical parts at least: that of the healthy workers of a public trace."""
LOOKS = 1000
"""Whoever watches a run asks again and again: with so many independent looks, the span of a day by
minutes, the chance of a false alarm is still that of one."""


def spans(table: Table) -> Iterator[Candidate]:
    """The clearest span of each scope over the whole run."""
    precision = table.precision
    # Where all blocks together tell the noise of one, two are a level.
    least = int(precision.steps) if precision.pooled else BLOCKS_AT_LEAST
    for shift in clearest_spans(
        table.whole.rest, shortest=least, baseline=least, peers=table.peers,
        noise=precision.noise, pooled=precision.pooled,
    ):  # fmt: skip
        if _became(table, table.whole, shift):
            yield as_candidate(table, table.whole, shift)


def short_spans(table: Table) -> Iterator[Candidate]:
    """What came and went within a few blocks of the whole run, in finer ones.

    Blocks of the whole run grow with it, and one that holds an end of a span is neither high nor
    low: of a span of two blocks that is most of it. Where what came and went need not have cost
    anything it is not looked for: a burst of any length would be told.
    """
    precision = table.precision
    if precision.pooled or not precision.transient_share:
        return
    groups = blocks(table.grid, least=precision.block_steps, most=FINER * BLOCKS_AT_MOST)
    if len(groups) <= len(table.whole.groups):
        return
    view = table.view(groups)
    for shift in clearest_spans(view.rest, peers=table.peers, noise=precision.noise):
        ended = shift.last < len(groups)
        if ended and _became(table, view, shift) and _steps_above(table, groups, shift) >= MOST:
            yield as_candidate(table, view, shift)


def always(table: Table) -> Iterator[Candidate]:
    """Scopes that are high from the first step to the last."""
    precision = table.precision
    least, asked = int(min(precision.steps, BLOCKS_AT_LEAST)), _strays(table)
    for shift in whole_run_spans(table.whole.rest, precision.noise, least, pooled=precision.pooled):
        if _always(table, shift, asked):
            yield as_candidate(table, table.whole, shift)


def spans_to_the_end(table: Table) -> Iterator[Candidate]:
    """What began only just now: the last steps against those right before them, in short blocks.

    Blocks of the whole run grow with it, and three of them are minutes. What began so recently may
    as well be a burst, so it must be as large as one that came and went, and its chance smaller.
    """
    groups = last_blocks(table.grid, table.usable, table.precision)
    view = table.view(groups)
    for shift in newest_spans(view.rest, groups, peers=table.peers, noise=table.precision.noise):
        if (
            shift.effect >= table.precision.transient_floor
            and _became(table, view, shift)
            and _steps_above(table, groups, shift) >= MOST
            and _goes_on(table, groups, shift)
        ):
            yield as_candidate(table, view, shift)


def newest_spans(
    series: FloatGrid, groups: Blocks, *, peers: int = 0, noise: float = NOISE_FLOOR
) -> Iterator[Shift]:
    """The clearest span of each column of (B, S) that goes on, beyond chance for so many looks.

    Args:
        series: In `last_blocks`.
        groups: These.
        peers: As of `clearest_spans`.
        noise: The same.
    """
    if len(groups) < LAST_AT_MOST // 2:
        return
    tests = series.shape[1] * len(groups) * LOOKS
    asked = critical_t(len(groups), series.shape[1], tests)
    for shift in clearest_spans(
        series, shortest=SHORTEST, baseline=len(groups) // 2, peers=peers, noise=noise
    ):
        windows = sum(map(len, groups.members[shift.first :]))
        if shift.last == len(groups) and shift.score >= asked and windows >= WINDOWS_AT_LEAST:
            yield shift


def _became(table: Table, view: View, shift: Shift) -> bool:
    """Beyond chance, large and long enough; and it stays so, in most of its single steps.

    It must lie above its reference in the span itself: who only lost an advantage is not slow.
    Where the reference is not enough to tell who of two changed, its own past must; and where that
    has no beginning, nobody knows whether it was slow then or is faster now.
    """
    scope, groups = table.scopes[shift.column], view.groups
    ended = shift.last < len(groups)
    each = table.grid.to_step - table.grid.from_step
    steps = float(each[np.concatenate(groups.members[shift.first : shift.last])].sum())
    return (
        shift.score >= shift.critical
        and shift.effect >= (table.precision.transient_floor if ended else table.floor(scope))
        and shift.effect >= WITHIN * shift.error
        and table.precision.long_enough(
            steps, len(groups) * groups.steps, ended=ended, lost=_lost(table, scope, shift)
        )
        and (not scope.alike or shift.inside >= shift.effect / 2)
        and ((scope.alike and scope.majority) or _moved_itself(table, view, shift))
        and (scope.alike or shift.first > 0)
        and sustained(view.rest, shift)
        and _steps_above(table, groups, shift) >= STEPS_ABOVE
    )


def _lost(table: Table, scope: Scope, shift: Shift) -> float:
    """Share of a step that a scope is longer by: of its own time, which is a share of the step."""
    own, wall = table.grid.time["own"][:, scope.columns], table.grid.time["wall"]
    share = median_of(own[table.usable]) / max(median_of(wall[table.usable]), NOTHING)
    return -float(np.expm1(-shift.effect)) * min(share, 1.0)


def _moved_itself(table: Table, view: View, shift: Shift) -> bool:
    """Whether most of the difference is in its own past, and not in that of the others.

    Where these told: of what followed nobody knows whether it was different. Nor may the others
    have become slower as well, unless they do the same work and take less time: more work lengthens
    each stage by a factor of its own, and what comes to all alike the shorter one more.
    """
    scope, inside = table.scopes[shift.column], np.zeros(len(view.own), dtype=bool)
    inside[shift.first : shift.last] = True
    mine, known = view.own[:, shift.column], np.isfinite(view.rest[:, shift.column])
    moved = median_of(mine[inside & known]) - median_of(mine[~inside & known])
    if not OWN_SHARE * shift.effect <= moved:
        return False
    return (
        scope.alike
        or moved <= (2 - OWN_SHARE) * shift.effect
        or (table.same_work(scope) and _takes_longer(table, scope, view, shift))
    )


def _takes_longer(table: Table, scope: Scope, view: View, shift: Shift) -> bool:
    """Whether its own time in the span is above that of all others together."""
    own = table.grid.time["own"][np.concatenate(view.groups.members[shift.first : shift.last])]
    others = np.setdiff1d(scope.peers, scope.columns)
    return median_of(own[:, scope.columns]) > median_of(own[:, others])


def _always(table: Table, shift: Shift, asked: float) -> bool:
    """High from the first step on, beyond what parts of one kind differ."""
    scope, groups = table.scopes[shift.column], table.whole.groups
    return (
        scope.alike
        and shift.score >= shift.critical
        and shift.effect >= table.floor(scope)
        and len(groups) * groups.steps >= table.precision.steps
        and sustained(table.whole.rest, shift)
        and shift.effect >= _natural(table, scope, asked)
    )


def _natural(table: Table, scope: Scope, asked: float) -> float:
    """Log slowdown from the first step on that parts of one kind reach by themselves.

    Args:
        table: Where the scope stands.
        scope: Who.
        asked: As of `_strays`.
    """
    if scope.is_rank:
        if table.precision.parts is not None:
            return table.precision.parts
        return natural_level(table.levels_without(scope), table.precision)
    strays = asked * float(np.sqrt(1 / len(scope.columns) + 1 / len(scope.peers)))
    return max(APART, table.floor(scope), strays + _faster_by(table, scope))


def _faster_by(table: Table, scope: Scope) -> float:
    """The largest advantage of another scope, with which the accused one is not compared.

    Nothing that breaks makes a node faster. So what is faster than its peers from the first step on
    is another kind of part, and where those are the many, one of the first kind is as much slower:
    false ones are counted on the side where all are false (Barber and Candes, Annals of Statistics
    43, 2015, equation 1.6). Of two alone nobody knows which is which.
    """
    sure = [scope for scope in table.scopes if scope.majority]
    if not sure:
        return 0.0
    levels = middles(table.levels_without(scope)[None, :], sure)
    return float(-np.nanmin(levels, initial=0.0))


def _strays(table: Table) -> float:
    """How far the middle of one part strays by chance, at FALSE_ALARM for any scope; 0 of ranks.

    How much the middle of a node's n parts strays is seen inside the nodes (of a leaf's, inside the
    leaves): by a median's standard error.
    """
    if table.scopes[0].is_rank:
        return 0.0
    levels = [column_medians(table.whole.ranks[:, scope.columns]) for scope in table.scopes]
    apart = np.concatenate([each - median_of(each) for each in levels])
    apart = apart[apart != 0.0]  # of three the middle one is the median itself
    sigma = MAD_TO_SIGMA * median_of(np.abs(apart))
    return critical_t(len(apart), 1, len(levels)) * MEDIAN_EFFICIENCY * sigma


def natural_level(levels: FloatGrid, precision: Precision) -> float:
    """Log slowdown from the first step on that one of identical parts reaches by itself.

    What the others show: Student's quantile of their spread, with a chance of FALSE_ALARM for any.

    Args:
        levels: Log own time of each over the others'; NaN of those not compared.
        precision: Of what they were told from.
    """
    levels = levels[np.isfinite(levels)]
    if len(levels) < MAJORITY:
        return float("inf")
    freedom = BIWEIGHT_EFFICIENCY * (len(levels) - 1)
    asked = float(-stdtrit(freedom, FALSE_ALARM / len(levels)))
    return max(asked * max(biweight(levels), SAME_PARTS), precision.floor)


def _steps_above(table: Table, groups: Blocks, shift: Shift) -> float:
    """Share of the span's windows above the middle of the two levels."""
    inside = np.isin(table.usable, np.concatenate(groups.members[shift.first : shift.last]))
    ratio = table.rest[inside, shift.column]
    ratio = ratio[np.isfinite(ratio)]
    return float(np.mean(ratio > shift.inside - shift.effect / 2)) if ratio.size else 0.0


def _goes_on(table: Table, groups: Blocks, shift: Shift) -> bool:
    """Whether the last window that tells is still high: else it may have been a stall."""
    inside = np.isin(table.usable, np.concatenate(groups.members[shift.first :]))
    ratio = table.rest[inside, shift.column]
    _, stop = refine(ratio, shift.inside - shift.effect, shift.inside)
    return bool(not np.isfinite(ratio[stop:]).any())


def last_blocks(grid: Grid, usable: NDArray[np.int64], precision: Precision = WINDOWS) -> Blocks:
    """The last of some windows in groups of enough steps."""
    steps = (grid.to_step - grid.from_step)[usable]
    members: list[list[int]] = [[]]
    held: list[int] = [0]
    for window, count in zip(usable[::-1].tolist(), steps[::-1].tolist(), strict=True):
        if held[-1] >= precision.block_steps:
            if len(members) == LAST_AT_MOST:
                break
            members.append([])
            held.append(0)
        members[-1].append(window)
        held[-1] += count
    groups = tuple(np.array(group[::-1], dtype=np.int64) for group in members[::-1] if group)
    return Blocks(groups, float(np.mean(held)))
