"""The best set of effects: who was slow, when and how, one after the other until nothing is left.

Each round looks at every rank and every node in every shape, takes what is beyond chance, and looks
again at what is left when the peers do without whom it took: so a rank is explained once, and a
second culprit is judged against peers without the first. It is greedy selection with a penalty for
every scope and span that was tried: Bonferroni's, which for spans is what the modified BIC adds in
logarithms (Zhang and Siegmund, Biometrics 2007).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import Finding, Grid
from lockstep.analyzer.stats.changepoint import autocorrelation_factor
from lockstep.analyzer.stats.peer_groups import MAJORITY, peer_groups
from lockstep.analyzer.stats.robust_stats import WITHIN, mean_of, median_of
from lockstep.analyzer.stragglers.model.adjusted_time import (
    is_run_queue,
    plainly_longer,
    with_quick_steps,
    with_steady_computing,
    without_run_queue,
)
from lockstep.analyzer.stragglers.model.candidate import OWN_SHARE, Candidate, as_candidate
from lockstep.analyzer.stragglers.model.effect_findings import findings_of, half_is_slow
from lockstep.analyzer.stragglers.model.precision import WINDOWS, Precision
from lockstep.analyzer.stragglers.model.ramps import ramps
from lockstep.analyzer.stragglers.model.recurring import again_and_again, stand_stills
from lockstep.analyzer.stragglers.model.roles import (
    for_roles,
)
from lockstep.analyzer.stragglers.model.scopes import Table, tables
from lockstep.analyzer.stragglers.model.spans import always, short_spans, spans, spans_to_the_end
from lockstep.analyzer.stragglers.model.whole_or_parts import (
    LONGER,
    alike_noise,
    each_rank,
    whole_or_parts,
)

SHAPES = (ramps, spans, short_spans, always, spans_to_the_end, again_and_again, stand_stills)
"""Of two shapes of one scope the earlier explains more of its windows."""
ALL_AT_ONCE = 16
"""Ranks of a peer group for each slow one, from which it does not move the middle of the others."""


def effects(grid: Grid, precision: Precision = WINDOWS) -> tuple[Finding, ...]:
    """One finding of kind `slow` for each rank that is slow, those of a node, leaf or rack name it.

    Of a stage it is one of kind `structure`; of kind `unplaced`, which accuses nobody, where the
    place is not likelier than all others together; and of kind `heavy` where it never began, and
    who does the same work is not known (lockstep.analyzer.stragglers.model.roles).

    First without the time that ranks wait for a processor, where that is much: it is the
    scheduler's, and no noise. Then by what loading data and collecting garbage take, and, where
    means of steps are too noisy, by quick steps. Last with it, for those whom that alone makes
    slow.

    Args:
        grid: The run.
        precision: What its own time can show.
    """
    precision, accused = for_roles(grid, precision), set[int]()
    eased = without_run_queue(grid)
    groups = {c: columns for columns in peer_groups(grid).values() for c in columns.tolist()}
    candidates = _search(grid if eased is None else eased, precision, accused, groups)
    steady = with_steady_computing(_without(grid, accused)) if precision.host else None
    of_host: list[Candidate] = []
    if steady is not None:
        of_host = _confirmed(_search(steady, precision, accused, groups), grid, precision)
    if precision.host:
        of_host += _by_quick_steps(grid if eased is None else eased, precision, accused, groups)
    if eased is not None:
        more = _search(_without(grid, accused), precision, accused, groups)
        candidates += [candidate for candidate in more if _waits_for_processor(grid, candidate)]
    candidates = sorted((*candidates, *of_host), key=lambda candidate: -candidate.shift.score)
    accused = {column for candidate in candidates for column in candidate.scope.columns.tolist()}
    crowded = len(candidates) > 1 and _moves_peers(grid, accused)
    parted = eased is not None or bool(of_host)
    whole_tables = tables(grid, precision) if parted and candidates and not crowded else ()
    sized = []
    for candidate in sorted(candidates, key=lambda candidate: candidate.gain):
        others = accused - set(candidate.scope.columns.tolist())
        whole = tables(_without(grid, others), precision) if crowded else whole_tables
        if crowded and not _is_left(candidate, whole):
            accused = others
            continue
        by_part = any(candidate is each for each in of_host)
        sized.append((candidate, _measured(candidate, whole, by_part=by_part)))
    sized.sort(key=lambda each: -each[0].shift.score)
    told_of = (
        tuple(
            findings_of(
                candidate, size, accused, half=half_is_slow(grid, candidate, accused, groups)
            )
        )
        for candidate, size in sized
    )
    shared = eased is not None
    recorded = (some for some in told_of if _recorded(some, precision, shared=shared))
    return tuple(finding for some in recorded for finding in some)


def _recorded(some: Sequence[Finding], precision: Precision, *, shared: bool) -> bool:
    """Whether a scope is slow by the smallest slowdown that is recorded, by its measured size.

    Beside others that are slow it is found in some of the windows, and measured in all; and where
    ranks share processors in a part of own time. There a burst of another process looks like
    what came and went.
    """
    over = shared and all(
        finding.last is not None and not finding.details.get("unended") for finding in some
    )
    least = float(np.exp(precision.transient_floor if over else precision.node_floor))
    return median_of(np.array([finding.slowdown for finding in some])) >= least


def _by_quick_steps(
    grid: Grid, precision: Precision, accused: set[int], groups: Mapping[int, NDArray[np.int64]]
) -> list[Candidate]:
    """Those whose quick steps are slow, where means of steps are too noisy to name anybody.

    For as long as what came and went: of a crowded host nobody knows whether a burst is over. Who
    is left is added to the accused.
    """
    rest = _without(grid, accused)
    quick = with_quick_steps(rest, precision)
    if quick is None:
        return []
    steps = grid.to_step - grid.from_step
    total, sure = float(steps[~grid.masked].sum()), []
    for candidate in _search(quick, precision, set(accused), groups):
        inside = _inside(grid, candidate)
        long = float(steps[inside & ~grid.masked].sum())
        if (
            candidate.scope.alike
            and precision.long_enough(long, total, ended=True)
            and plainly_longer(grid, candidate.scope.columns, candidate.scope.peers, inside)
        ):
            sure.append(candidate)
    kept = _confirmed(sure, grid, precision)
    accused.update(column for candidate in kept for column in candidate.scope.columns.tolist())
    return kept


def _confirmed(
    candidates: Sequence[Candidate], grid: Grid, precision: Precision
) -> list[Candidate]:
    """Those who may be slower in all of own time as well, within its error.

    By what is recorded, and by most of what they are slower by in the part of it that was looked
    at: what only moved between its parts slows nobody.
    """
    whole = tables(grid, precision) if candidates else ()
    kept = []
    for candidate in candidates:
        if (same := _again_in(candidate, whole)) is not None:
            rise, error = _mean_rise(candidate, *same)
            part = _mean_rise(candidate, candidate.table, candidate.column)[0]
            share = _part(candidate, *same)
            least = OWN_SHARE * (_of_all(part, share) if np.isfinite(share) else part)
            if rise + error >= max(least, precision.node_floor):
                kept.append(candidate)
    return kept


def _part(candidate: Candidate, table: Table, index: int) -> float:
    """What share of all of its usual own time the part is in which a candidate was found."""
    return _usual_seconds(candidate, candidate.table, candidate.column) / _usual_seconds(
        candidate, table, index
    )


def _of_all(grown: Any, share: float) -> Any:
    """Log growth of all own time by that of a part of it."""
    return np.log1p(share * np.expm1(grown))


def _is_left(candidate: Candidate, whole: Sequence[Table]) -> bool:
    """Whether an effect is still there without the others that are accused.

    Who is compared with slow ones is high whenever these are not.
    """
    table, index = _again_in(candidate, whole) or (candidate.table, candidate.column)
    (now, _), (then, _) = (
        _mean_rise(candidate, *each)
        for each in ((table, index), (candidate.table, candidate.column))
    )
    return not now < OWN_SHARE * then


def _mean_rise(candidate: Candidate, table: Table, index: int) -> tuple[float, float]:
    """How much higher a scope is in the span of a candidate than beside it, and the error."""
    rest = table.view(candidate.groups).rest[:, index]
    inside = np.zeros(len(rest), dtype=bool)
    inside[candidate.shift.first : candidate.shift.last] = True
    now, before = (side[np.isfinite(side)] for side in (rest[inside], rest[~inside]))
    rise = mean_of(now) - (0.0 if inside.all() else mean_of(before))
    sides = [side - side.mean() for side in (now, before) if side.size]
    if not sides:
        return rise, float("inf")
    error = np.sqrt(sum(np.mean(side**2) / side.size for side in sides))
    return rise, float(error * autocorrelation_factor(np.concatenate(sides)))


def _measured(candidate: Candidate, whole: Sequence[Table], *, by_part: bool) -> Candidate:
    """The candidate with its size in all of own time, against peers without the other accused.

    Of one that was found in a part of own time the interval holds what that part grew by as well.

    Args:
        candidate: As it was found.
        whole: Tables of all own time.
        by_part: Whether its size is what the part grew by, as a share of all own time: the noise of
            the rest is why only what loading and collecting take was looked at.
    """
    same = _again_in(candidate, whole)
    of_all = None if same is None else _there(candidate, *same)
    if same is None or of_all is None:
        return candidate
    table, index = same
    columns = candidate.scope.columns
    part, every = (table.grid.time["own"][:, columns] for table in (candidate.table, table))
    share = _part(candidate, table, index)
    if np.array_equal(part, every, equal_nan=True) or not np.isfinite(share):
        return of_all
    grown = np.array([candidate.shift.effect, candidate.shift.error, *candidate.rises])
    effect, error, *rises = _of_all(grown, share).tolist()
    off = abs((_mean_rise(candidate, table, index)[0] if by_part else of_all.shift.effect) - effect)
    error = max(error, off / WITHIN)
    if not by_part:
        return replace(of_all, shift=replace(of_all.shift, error=max(of_all.shift.error, error)))
    inside = of_all.shift.inside + effect - of_all.shift.effect
    shift = replace(of_all.shift, effect=effect, inside=inside, error=error)
    highs = of_all.highs + np.array(rises) - of_all.rises
    return replace(of_all, shift=shift, rises=np.array(rises), highs=highs)


def _usual_seconds(candidate: Candidate, table: Table, index: int) -> float:
    """Seconds of own time per step of its ranks beside its span, or as if nobody were slow."""
    own, inside = table.view(candidate.groups).own[:, index], candidate.blocks
    if inside.all():
        return float(np.exp(median_of(own) - candidate.shift.effect))
    return float(np.exp(median_of(own[~inside])))


def _again_in(candidate: Candidate, whole: Sequence[Table]) -> tuple[Table, int] | None:
    """The table and the column of the scope of a candidate; None where some window is missing.

    In that only the accused reported own time.
    """
    columns, windows = candidate.scope.columns.tolist(), np.concatenate(candidate.groups.members)
    for table in whole:
        if not np.isin(windows, table.usable).all():
            continue
        for index, scope in enumerate(table.scopes):
            whom = scope.columns.tolist(), scope.stage, scope.part
            if whom == (columns, candidate.scope.stage, candidate.scope.part):
                return table, index
    return None


def _there(candidate: Candidate, table: Table, index: int) -> Candidate | None:
    """A scope of a table in the span of a candidate; None where it is not higher in it."""
    view = table.view(candidate.groups)
    inside = np.zeros(len(view.rest), dtype=bool)
    inside[candidate.shift.first : candidate.shift.last] = True
    rest, middle = view.rest[:, index], mean_of if candidate.by_mean else median_of
    level = middle(rest[inside])
    usual = 0.0 if inside.all() else middle(rest[~inside])
    if not level > usual or (candidate.by_mean and inside.all()):
        return None
    shift = replace(candidate.shift, column=index, effect=level - usual, inside=level)
    there = as_candidate(table, view, shift, candidate.edges, by_mean=candidate.by_mean)
    # The score is the same, and what chance makes of it.
    return replace(there, freedom=candidate.freedom, high=candidate.high)


def _search(
    grid: Grid, precision: Precision, accused: set[int], groups: Mapping[int, NDArray[np.int64]]
) -> list[Candidate]:
    """Round by round; the columns that it takes are added to the accused.

    Args:
        grid: The windows in which to look.
        precision: What these can show.
        accused: Columns known to be slow.
        groups: Column -> its peer group with all that reported, of which half can be slow.
    """
    candidates: list[Candidate] = []
    while taken := list(_taken(tables(grid, precision), accused, groups)):
        candidates += taken
        accused.update(column for candidate in taken for column in candidate.scope.columns.tolist())
        if not _moves_peers(grid, accused):
            break
        grid = _without(grid, accused)
    return candidates


def _without(grid: Grid, accused: set[int]) -> Grid:
    """The grid without own times of some columns: nobody is compared with them."""
    own = grid.time["own"].copy()
    own[:, sorted(accused)] = np.nan
    return replace(grid, time={**grid.time, "own": own})


def _waits_for_processor(grid: Grid, candidate: Candidate) -> bool:
    return is_run_queue(
        grid, candidate.scope.columns, candidate.scope.peers, _inside(grid, candidate)
    )


def _inside(grid: Grid, candidate: Candidate) -> NDArray[np.bool_]:
    """(W,) whether a window is in the span of a candidate."""
    inside = np.zeros(len(grid.start), dtype=bool)
    first, last = candidate.edges or (
        candidate.groups.first(candidate.shift.first), candidate.groups.stop(candidate.shift.last)
    )  # fmt: skip
    inside[first:last] = True
    return inside


def _moves_peers(grid: Grid, accused: set[int]) -> bool:
    """Whether the accused are so many of a peer group that the others' medians are off."""
    groups = peer_groups(grid).values()
    return any(ALL_AT_ONCE * len(accused.intersection(g.tolist())) > len(g) for g in groups)


def _taken(
    tables: Sequence[Table], accused: set[int], group_of: Mapping[int, NDArray[np.int64]]
) -> Iterator[Candidate]:
    """The best candidates that do not concern each other.

    At most half of a peer group, where the others are the ruler. Of who changed it is half of those
    that nobody was accused of before, while these have a middle.
    """
    seen = [candidate for table in tables for candidate in _shapes(table)]
    seen += _by_their_ranks(tables, seen)
    concerned: set[int] = set()
    slow = set(accused)
    for candidate in sorted(whole_or_parts(seen), key=lambda candidate: -candidate.gain):
        columns = set(candidate.scope.columns.tolist())
        groups = [set(group_of[column].tolist()) for column in columns]
        if candidate.shift.first > 0:
            groups = [g - accused if len(g - accused) > MAJORITY else g for g in groups]
        full = any(len((slow | columns) & g) > _most(len(g)) for g in groups)
        bound = _by_others(candidate) or candidate.scope.part is not None
        if columns & (slow | concerned) or (bound and full):
            continue
        yield candidate
        slow |= columns
        concerned.update(c for g in groups if len(g) < ALL_AT_ONCE for c in g)


def _by_others(candidate: Candidate) -> bool:
    """Whether its peers are its ruler, of which half must be left; else its own past was."""
    return candidate.scope.alike and (candidate.scope.majority or candidate.shift.first == 0)


def _most(ranks: int) -> int:
    """Ranks of a peer group that can be slow: of three, one stands out from two."""
    return 1 if ranks <= MAJORITY else ranks // 2


def _shapes(table: Table) -> Iterator[Candidate]:
    """Each scope in the first shape that it shows, or in one that holds or costs much more."""
    shown: dict[int, Candidate] = {}
    for shape in SHAPES:
        for candidate in shape(table):
            last = shown.get(candidate.column)
            if (
                last is None
                or candidate.windows_high >= LONGER * last.windows_high
                or candidate.windows * candidate.shift.effect
                >= LONGER * last.windows * last.shift.effect
            ):
                shown[candidate.column] = candidate
    yield from shown.values()


def _by_their_ranks(tables: Sequence[Table], seen: Sequence[Candidate]) -> Iterator[Candidate]:
    """Nodes in the span of the clearest of their ranks, where these can show more than the nodes.

    A node of two has one peer, of which nobody knows whether it changed; its ranks have many. Of
    pauses, which blocks cut, a node's levels say nothing.
    """
    ranks = [
        candidate
        for candidate in seen
        if candidate.scope.is_rank and (candidate.others.size or candidate.high is not None)
    ]
    for table in tables:
        for index, scope in enumerate(table.scopes):
            if scope.node is None or not scope.alike or scope.majority:
                continue
            mine = [candidate for candidate in ranks if candidate.scope.columns[0] in scope.columns]
            if not mine:
                continue
            best = max(mine, key=lambda candidate: candidate.gain)
            if (whole := _there(best, table, index)) is not None and _changed_itself(whole):
                error = best.shift.error * float(np.sqrt(alike_noise(whole, each_rank(scope))))
                yield replace(whole, shift=replace(whole.shift, error=error))


def _changed_itself(candidate: Candidate) -> bool:
    """Whether most of it is in its own past: of two one is high whenever the other is not."""
    own, inside = candidate.table.view(candidate.groups).own[:, candidate.column], candidate.blocks
    middle = mean_of if candidate.by_mean else median_of
    return bool(
        inside.all()
        or middle(own[inside]) - middle(own[~inside]) >= OWN_SHARE * candidate.shift.effect
    )
