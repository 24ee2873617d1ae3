"""The shape again and again: short slow stretches, at regular distances or at none."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, pdtrc, stdtrit

from lockstep.analyzer.align.common_writes import BY_DESIGN
from lockstep.analyzer.hangs.last_seen import FROZEN_SECONDS, heartbeat_stopped
from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.changepoint import FALSE_ALARM, Shift, column_medians
from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.analyzer.stats.robust_stats import NOTHING, median_of
from lockstep.analyzer.stats.significance import PARTS_ON_AVERAGE, RECORDED
from lockstep.analyzer.stats.temporal_shape import (
    EPISODES_AT_LEAST,
    USUAL,
    WINDOWS_AT_LEAST,
    OnAndOff,
    blocks_of,
    on_and_off,
    stretches,
)
from lockstep.analyzer.stragglers.model.candidate import CAP, OWN_SHARE, Candidate
from lockstep.analyzer.stragglers.model.scopes import Scope, Table, middles
from lockstep.collector.contract.robust import MAD_TO_SIGMA

FLOOR = float(np.log(1.03))
"""The smallest mean excess: as of a node, what is felt is the mean."""
TAILS = 5.0
"""Degrees of freedom at most of a mean that some long stalls may carry: heavier than a Gaussian's.
"""
NOBODY = np.empty(0)
"""No scores of others: how likely it is that they are it is told by the chance itself."""
NO_LESS = 1e-300
"""Chance that still has a score."""
USUAL_PAUSE = 1.0
"""Seconds for which any process may be away on a busy host, chosen: however quiet the others are,
what is not longer than that says nothing."""
LUCK = 1.5
"""Times as many windows as the others have, that one may have by its place."""


def again_and_again(table: Table) -> Iterator[Candidate]:
    """The mean excess against everybody else's.

    What chance can do is what the others show: stalls that all have now and then accuse nobody. A
    mean that few windows carry has heavy tails; where more stand out than chance can make, none.
    Stalls that last for several windows are counted once: the others show for how many. Of two
    the one that is compared with a culprit is high whenever that is not, and shows nothing of
    chance.
    """
    if len(table.usable) < WINDOWS_AT_LEAST:
        return
    own, ranks, rest = table.without_writes
    rest = _without_common(own, rest, table.scopes)
    told = {
        index: seen
        for index in range(rest.shape[1])
        if (seen := on_and_off(rest[:, index], least=PARTS_ON_AVERAGE, most=CAP)) is not None
    }
    if len(told) < 2:
        return
    places = np.array(list(told))
    means = np.array([told[index].mean for index in told])
    # Its own turns make neighbours alike; what noise does, everybody shows.
    usual_widening = median_of(np.array([seen.widening for seen in told.values()]))
    counts = np.array([float(told[index].on.sum()) for index in told])
    starts = [np.diff(told[index].on.astype(int), prepend=0) == 1 for index in told]
    lasting = counts / np.maximum([float(one.sum()) for one in starts], 1.0)
    groups = table.whole.groups
    shows = np.ones(len(places), dtype=bool)
    if len(places) == 2:
        shows = np.array([_is_its_own(table, own, p, told[p].on) for p in places.tolist()])
    for at, place in enumerate(places.tolist()):
        seen, scope = told[place], table.scopes[place]
        # As of spans: of what began nowhere nobody knows whether it is faster meanwhile.
        if seen.inside < FLOOR or not (scope.alike or seen.begin > 0):
            continue
        free = np.delete(shows, at)
        others = np.delete(means, at)[free]
        usual = median_of(others) if others.size else 0.0
        spread = MAD_TO_SIGMA * median_of(np.abs(others - usual)) if others.size else 0.0
        noise = seen.error * min(usual_widening / seen.widening, 1.0)
        error = float(np.hypot(spread, noise))
        score = (seen.mean - max(usual, 0.0)) / error
        # Welch and Satterthwaite: a spread that few others tell is hardly known.
        freedom = error**4 / (
            spread**4 / max(len(others) - 1, 1) + noise**4 / max(len(table.usable) / 4, 1)
        )
        usually, alike = 1.0, 1.0
        if others.size:
            usually += LUCK * median_of(np.delete(counts, at)[free])
            # Quasi-Poisson: windows of one stall are one event (McCullagh and Nelder 1989, 6.2).
            alike = max(median_of(np.delete(lasting, at)[free]), 1.0)
        chance = float(pdtrc(counts[at] / alike - 1, usually / alike)) * len(told)
        if not others.size or chance > FALSE_ALARM:
            freedom = min(freedom, TAILS)  # it may be some long stalls
        asked = float(-stdtrit(freedom, FALSE_ALARM / len(told)))
        if score >= asked and _no_stalls(table, seen) and _is_its_own(table, own, place, seen.on):
            first = int(table.usable[seen.begin])
            last = None if seen.stop is None else int(table.usable[seen.stop - 1]) + 1
            inside = _between(table.usable, first, last)
            shift = Shift(place, *blocks_of(groups, first, last), seen.inside, error, score, asked,
                          seen.inside)  # fmt: skip
            rises = np.array([_excess(ranks[:, column], inside) for column in scope.columns])
            usually_high = np.nanquantile(table.ranks[:, scope.columns], USUAL, axis=0)
            highs = usually_high + rises
            yield Candidate(
                table, place, groups, shift, rises, highs, freedom, NOBODY, (first, last),
                by_mean=True, high=table.usable[seen.on],
            )  # fmt: skip


def stand_stills(table: Table) -> Iterator[Candidate]:
    """The longest pauses of the whole run, when all of them are one scope's.

    Without what takes long by design, as an evaluation. Whoever pauses now and then since the start
    may do so by design, and so may the first rank once, which logs for the run; but a process that
    does not run is no design. Stalls of other kinds may be longer than the pauses in which a
    heartbeat stopped: so these are looked at for themselves as well, and by the rank's own usual
    time, as nobody else is needed to see them.
    """
    if len(table.scopes) < 2:
        return
    levelled, ranks, rest = table.without_writes
    steps = (table.grid.to_step - table.grid.from_step)[table.usable, None]
    own, design = _own_and_design(table)
    still = _lost(own, rest, design, np.ones_like(rest, dtype=bool)) * steps
    stood = _stood(table) & (still >= FROZEN_SECONDS)
    lost = _lost(own, rest, design, stood) * steps
    looks = [_longest(lost, stood)]
    if stood.any():
        looks.append(_longest(np.where(stood, lost, 0.0), stood, FROZEN_SECONDS))
    one = min(looks, key=lambda each: each.log_chance)
    chance = len(looks) * float(np.exp(one.log_chance))
    if chance > FALSE_ALARM:
        return
    index, scope = one.place, table.scopes[one.place]
    moments, mine = np.flatnonzero(one.still), np.flatnonzero(one.longest)
    begin, stop = int(moments[0]), int(moments[-1]) + 1
    apart, seen = int(np.diff(mine).max(initial=1)), stood[mine, index]
    early = mine[0] <= apart if apart > 1 else int(scope.columns.min()) == 0
    less = float(lost[one.still, index].sum())
    wall = column_medians(table.grid.time["wall"][table.usable].T)
    run = float(np.nansum(wall * steps[:, 0]))
    if (
        less < RECORDED * run
        or (early and 2 * seen.sum() < len(mine))
        or not (stood[moments, index].all() or _is_its_own(table, levelled, index, one.still))
    ):
        return
    seconds = float(np.nansum((own * steps)[begin:stop, index]))
    effect = -float(np.log1p(-less / seconds))
    # As far beyond chance in deviations of a Gaussian.
    score, asked = float(-ndtri(max(chance, NO_LESS))), float(-ndtri(FALSE_ALARM))
    first = int(table.usable[begin])
    goes_on = apart > 1 and len(one.still) - stop <= 2 * apart
    last = None if goes_on else int(table.usable[stop - 1]) + 1
    groups = table.whole.groups
    shift = Shift(index, *blocks_of(groups, first, last), effect, effect / score, score, asked,
                  effect)  # fmt: skip
    # How much of what the scope lost is each rank's own.
    of_each, by_design = (cells[:, scope.columns] for cells in _own_and_design(table, by_rank=True))
    gone = _lost(of_each, ranks[:, scope.columns], by_design, stood[:, [index]])
    share = (gone * steps)[one.still].sum(axis=0)
    all_of_it = np.nansum((of_each * steps)[begin:stop], axis=0)
    share = np.divide(share, all_of_it, out=np.zeros_like(share), where=all_of_it > 0)
    rises = -np.log1p(-np.clip(share, -1.0, 0.99))
    yield Candidate(table, index, groups, shift, rises, rises, np.inf, NOBODY, (first, last),
                    by_mean=True)  # fmt: skip


def _own_and_design(table: Table, *, by_rank: bool = False) -> tuple[FloatGrid, FloatGrid]:
    """(n, S) own time per step of usable windows by scope, and of it what is slow by design.

    Args:
        table: Where the scopes stand.
        by_rank: (n, R) by rank instead.
    """
    time, usable = table.grid.time, table.usable
    design = np.sum([np.nan_to_num(time[phase][usable]) for phase in BY_DESIGN], axis=0)
    some = (time["own"][usable], design)
    own, design = some if by_rank else (middles(cells, table.scopes) for cells in some)
    return own, np.nan_to_num(design)


def _lost(
    own: FloatGrid, rest: FloatGrid, design: FloatGrid, stood: NDArray[np.bool_]
) -> FloatGrid:
    """(n, k) seconds per step that windows take beyond what they should.

    By the others' time; where a process was seen to stand still by its own usual time, and where
    little of that is known by the usual time of all.

    Args:
        own: Of own time.
        rest: Log own time over the others'.
        design: What is slow by design.
        stood: Whether it stood.
    """
    beyond = np.nan_to_num(own) * np.nan_to_num(-np.expm1(-rest)) - design
    known = np.isfinite(own).sum(axis=0) >= MAJORITY
    usual = np.where(known, column_medians(own), median_of(own))
    return np.where(stood, np.nan_to_num(own - usual) - design, np.maximum(beyond, 0.0))


class _Pauses(NamedTuple):
    """The longest of some (n, S): whose, and how likely that is.

    Attributes:
        longest: (n,) windows of all pauses that are longer than any other scope's.
        still: (n,) of those of them by which it is least likely.
    """

    place: int
    longest: NDArray[np.bool_]
    still: NDArray[np.bool_]
    log_chance: float


def _longest(lost: FloatGrid, stood: NDArray[np.bool_], least: float = NOTHING) -> _Pauses:
    """The pauses of the scope with the longest one; what neighbouring windows see is one pause.

    How long pauses are has no known distribution and no bound. But among S alike whose they are is
    a matter of chance: that the k longest are all of one has the chance S^(1 - k). Of the heaviest
    tails, Pareto's with no mean, the k longest are all longer than x times the next with the chance
    x^-k (Renyi, Acta Math. Hung. 4, 1953); the next is taken to last USUAL_PAUSE at least. And that
    the process was seen to stand in one of them
    has the chance of meeting such a window anywhere, or such a scope. All three are independent.
    The best k is one of so many.

    Args:
        lost: Seconds.
        stood: Where the process was seen to stand still.
        least: Seconds that the longest of the others is taken to last at least.
    """
    index = int(lost.max(axis=0).argmax())
    mine, others = lost[:, index], float(np.delete(lost, index, axis=1).max(initial=least))
    longest = mine > others
    windows = np.flatnonzero(longest)
    if not len(windows):
        return _Pauses(index, longest, longest, 0.0)
    meets = float(np.log(min(1 / lost.shape[1], stood.mean() or 1.0)))
    pauses = np.split(windows, np.flatnonzero(np.diff(windows) > 1) + 1)
    pauses.sort(key=lambda each: -mine[each].max())
    lengths = np.array([*(mine[each].max() for each in pauses), others])
    number = np.arange(1, len(pauses) + 1)
    seen = np.cumsum([stood[each, index].any() for each in pauses])
    chances = (1 - number) * np.log(lost.shape[1]) + seen * meets
    chances -= number * np.log(np.maximum(lengths[:-1] / np.maximum(lengths[1:], USUAL_PAUSE), 1.0))
    best = int(chances.argmin())
    still = np.isin(np.arange(len(mine)), np.concatenate(pauses[: best + 1]))
    return _Pauses(index, longest, still, float(chances[best]) + float(np.log(len(pauses))))


def _stood(table: Table) -> NDArray[np.bool_]:
    """(n, S) whether the processes of all ranks of a scope were seen to stand still."""
    older = heartbeat_stopped(table.grid)
    if older is None:
        return np.zeros(table.rest.shape, dtype=bool)
    still = older[table.usable] >= FROZEN_SECONDS
    return np.column_stack([still[:, scope.columns].all(axis=1) for scope in table.scopes])


def _without_common(own: FloatGrid, rest: FloatGrid, some: Sequence[Scope]) -> FloatGrid:
    """(n, S) what is left when each scope goes with the work of its peers by its own factor.

    Long sequences lengthen one stage more than another: that is the work of all.
    """
    mine = np.clip(np.nan_to_num(rest), -CAP, CAP)
    common = np.clip(np.nan_to_num(middles(own, some) - rest), -CAP, CAP)
    factor = (common * mine).sum(axis=0) / np.maximum((common**2).sum(axis=0), NOTHING)
    left: FloatGrid = rest - np.maximum(factor, 0.0) * common
    return left


def _no_stalls(table: Table, seen: OnAndOff) -> bool:
    """Whether it is more than some stalls: high often, or twice for as long as what came and went.

    A turn is of two windows at least: one of many short steps may hold a single stall.
    """
    if seen.episodes >= EPISODES_AT_LEAST:
        return True
    precision, steps = table.precision, (table.grid.to_step - table.grid.from_step)[table.usable]
    span = slice(seen.begin, seen.stop)
    inside = steps[span]
    turns = [inside[begin:stop] for begin, stop in stretches(seen.on[span]) if stop - begin > 1]
    long = [turn.sum() for turn in turns if turn.sum() >= precision.transient_steps]
    total = float(steps.sum())
    return len(long) > 1 and precision.long_enough(float(sum(long)), total, ended=True)


def _is_its_own(table: Table, own: FloatGrid, index: int, on: NDArray[np.bool_]) -> bool:
    """Whether it is above its peers when it is high, and by a change of its own.

    Who only loses an advantage then is not slow, nor whose peers become faster.
    """
    scope, rest = table.scopes[index], table.rest[:, index]
    rise = _rise(rest, on)
    if scope.alike and not median_of(rest[on]) >= rise / 2:
        return False
    surely = scope.alike and scope.majority
    return surely or _rise(column_medians(own[:, scope.columns].T), on) >= OWN_SHARE * rise


def _rise(cells: FloatGrid, on: NDArray[np.bool_]) -> float:
    """How much higher it is in the high windows, by medians."""
    if not on.any() or on.all():
        return 0.0
    return median_of(cells[on]) - median_of(cells[~on])


def _between(usable: NDArray[np.int64], first: int, last: int | None) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (usable >= first) & (usable < (np.inf if last is None else last))
    return inside


def _excess(rest: FloatGrid, inside: NDArray[np.bool_]) -> float:
    """Mean excess of a rank in some windows over the others."""
    mine = np.clip(np.nan_to_num(rest), -CAP, CAP)
    return float(mine[inside].mean() - (mine[~inside].mean() if not inside.all() else 0.0))
