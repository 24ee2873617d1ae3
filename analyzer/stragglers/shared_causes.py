"""What several ranks share is slow, and none of them: input data, or the cooling of a room.

Each rank stands out from its peers by far more than noise, and one cause of all is likelier than as
many that began at the same time. Such findings accuse nobody: together they are one of kind
`structure`.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import (
    OBSERVED,
    SHARED_COOLING,
    SHARED_LOADING,
    Finding,
    FloatGrid,
    Grid,
    Rejected,
)
from lockstep.analyzer.shapes.wording import NAMED, listed
from lockstep.analyzer.stats.before_after import SM_CLOCK, column_of
from lockstep.analyzer.stats.changepoint import (
    FALSE_ALARM,
    autocorrelation_factor,
    column_medians,
    critical_t,
)
from lockstep.analyzer.stats.robust_stats import (
    MOSTLY,
    NOTHING,
    interval_95,
    mean,
    median_of,
    shows,
)
from lockstep.analyzer.stats.significance import RECORDED, STEPS_AT_LEAST
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Phase

RANKS: Mapping[str, str] = {SHARED_LOADING: "lacking", SHARED_COOLING: "heated"}
"""Where `Finding.details` of each kind has the ranks that it is about, the slowest first."""
NOT_ALONE: Mapping[str, str] = {
    SHARED_LOADING: "waits for its input data, as ranks of other nodes do meanwhile",
    SHARED_COOLING: "its GPU is held back by heat, in a room that became hotter",
}
"""Why a rank of each kind is let go."""
TEMPERATURE = metrics.GPU_TEMPERATURE.series(sensor="gpu")
HOTTER = 10.0
"""Degrees Celsius by which a room is another one, chosen: within its recommended range (18 to 27,
ASHRAE TC 9.9) a room moves by less."""
DEGREE = 1.0
"""NVML reports whole degrees (nvmlDeviceGetTemperature)."""


def let_go(findings: Sequence[Finding], named: Sequence[int | None]) -> Iterator[Rejected]:
    """Who would be slow by itself, and is not alone; but for those named for another reason."""
    for kind, why in NOT_ALONE.items():
        for finding in findings:
            for rank in finding.details.get(RANKS[kind], ())[:NAMED]:
                if rank not in named:
                    yield Rejected(rank, why)


def without_shared_loading(grid: Grid, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, of which those of slow input data are one of kind `structure`.

    Loaders read ahead. What serves less than all of them ask for holds back whoever's buffer runs
    empty, one after another. Of most nodes it is the file system that they read, of most ranks of a
    node the node.

    Ranks that are slow by data alone are not accused where on most of the other nodes some rank
    waits longer for data as well, by a share of its own time that is recorded, and these together
    by half as much as it does. Those of most ranks of one node are its own.
    """
    slow = list(_by_data(findings))
    left = list(findings)
    for some in _at_once(grid, slow):
        shared = _lacking(grid, some, slow)
        if shared:
            finding = _slow_loading(grid, shared, slow)
            whole = [
                one for one in left
                if one.kind in ("change", "structure") and "stage" not in one.details
                and _same_time(grid, one, finding)
            ]  # fmt: skip
            if whole:
                finding = replace(
                    finding, slowdown=whole[0].slowdown, interval=whole[0].interval,
                    score=whole[0].score,
                )  # fmt: skip
            gone = {id(finding) for finding in (*shared, *whole)}
            left = [*(finding for finding in left if id(finding) not in gone), finding]
        of_node = _of_node(grid, [finding for finding in some if finding not in shared])
        left = [of_node.get(id(finding), finding) for finding in left]
    return tuple(left)


def _by_data(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Those of ranks, nodes and racks that are slow by data, most of their ranks at least."""
    scopes: dict[object, list[Finding]] = {}
    for finding in findings:
        if finding.kind == "slow":
            whole = finding.details.get("part") or finding.details.get("node")
            scopes.setdefault(finding.rank if whole is None else whole, []).append(finding)
    for some in scopes.values():
        if 2 * sum(finding.share.get(Phase.DATA, 0.0) >= MOSTLY for finding in some) >= len(some):
            yield from some


def _of_node(grid: Grid, some: Sequence[Finding]) -> dict[int, Finding]:
    """By identity, those of ranks that are most of their node's, about the node then."""
    nodes: dict[str, list[Finding]] = {}
    node_of = {info.rank: info.node for info in grid.ranks}
    for finding in some:
        if finding.rank is not None and "node" not in finding.details:
            nodes.setdefault(node_of[finding.rank], []).append(finding)
    ranks = Counter(node_of.values())
    return {
        id(finding): replace(finding, details={**finding.details, "node": node})
        for node, mine in nodes.items()
        if 2 * len({finding.rank for finding in mine}) > max(ranks[node], 2)
        for finding in mine
    }


def _at_once(grid: Grid, slow: Sequence[Finding]) -> Iterator[list[Finding]]:
    """The findings that overlap or take turns: no further apart than the longer one lasts."""
    some: list[Finding] = []
    for finding in sorted(slow, key=lambda finding: finding.first):
        if some:
            stop = max(_stop(grid, finding) for finding in some)
            longest = max(_stop(grid, finding) - finding.first for finding in (*some, finding))
            if finding.first - stop > longest:
                yield some
                some = []
        some.append(finding)
    if some:
        yield some


def _stop(grid: Grid, finding: Finding) -> int:
    return len(grid.start) if finding.last is None else finding.last


def _same_time(grid: Grid, finding: Finding, other: Finding) -> bool:
    """Whether they share half of all windows that either has."""
    both = [finding.inside(grid) for finding in (finding, other)]
    return bool(2 * (both[0] & both[1]).sum() >= (both[0] | both[1]).sum())


def _lacking(grid: Grid, some: Sequence[Finding], slow: Sequence[Finding]) -> list[Finding]:
    """Those of some findings whose ranks lack data by no more than twice what other nodes do."""
    longer = _longer_waits(grid, *_during_and_outside(grid, some, slow))
    of_rank = {grid.ranks[column].rank: seconds for column, seconds in longer.items()}
    of_node: dict[str, float] = {info.node: 0.0 for info in grid.ranks}
    for info in grid.ranks:
        of_node[info.node] += of_rank.get(info.rank, 0.0)
    node_of = {info.rank: info.node for info in grid.ranks}
    findings = []
    for finding in some:
        rank = -1 if finding.rank is None else finding.rank
        others = [seconds for node, seconds in of_node.items() if node != node_of.get(rank)]
        most = 2 * sum(seconds > 0 for seconds in others) > len(others)
        if most and shows(sum(others), of_rank.get(rank, 0.0)):
            findings.append(finding)
    return findings


def _during_and_outside(
    grid: Grid, some: Sequence[Finding], slow: Sequence[Finding]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(W,) windows from the first of some findings to the last, and those outside all."""
    first, stop = (
        min(finding.first for finding in some),
        max(_stop(grid, finding) for finding in some),
    )
    positions = np.arange(len(grid.start))
    during = ~grid.masked & (positions >= first) & (positions < stop)
    return during, ~grid.masked & ~during & ~np.any(
        [finding.inside(grid) for finding in slow], axis=0
    )


def _slow_loading(grid: Grid, shared: Sequence[Finding], slow: Sequence[Finding]) -> Finding:
    """What nodes share, as one finding."""
    during, outside = _during_and_outside(grid, shared, slow)
    longer = _longer_waits(grid, during, outside)
    node_of = {info.rank: info.node for info in grid.ranks}
    ranks = [grid.ranks[column].rank for column in longer]
    ranks += [
        finding.rank for finding in shared if finding.rank is not None and finding.rank not in ranks
    ]
    nodes, every = {node_of[rank] for rank in ranks}, set(node_of.values())
    wall = column_medians(grid.time["wall"].T)
    now, usual = (wall[side & np.isfinite(wall)] for side in (during, outside))
    effect = max(float(np.log(now.mean() / usual.mean())), 0.0)
    error = float(np.hypot(*(_error_of_mean(side) / side.mean() for side in (now, usual))))
    low, ratio, high = interval_95(effect, error)
    first, stop = (
        min(finding.first for finding in shared),
        max(_stop(grid, finding) for finding in shared),
    )
    last = None if any(finding.last is None for finding in shared) else stop
    until = "" if last is None else f" to step {grid.to_step[last - 1]}"
    observed = (
        f"ranks of {len(nodes)} of {len(every)} nodes wait for their input data from step"
        f" {grid.from_step[first]}{until}, most of all rank{'s' if len(ranks) > 1 else ''}"
        f" {listed(ranks[:NAMED])}: what they share is slow, and no node"
    )
    advice = "look at the file system or object store that they read, and the way to it"
    shown = replace(
        shared[0], first=first, last=last, slowdown=float(ratio), interval=(float(low), float(high))
    )
    return _shared_finding(SHARED_LOADING, ranks, shown, observed, advice)


def _longer_waits(
    grid: Grid, during: NDArray[np.bool_], outside: NDArray[np.bool_]
) -> dict[int, float]:
    """By column, seconds a step by which ranks wait longer for data than more work takes.

    Of those that do so for certain and by what is recorded, the longest first.
    """
    if not during.any() or not outside.any():
        return {}
    data, own = grid.time[Phase.DATA], grid.time["own"]
    work = median_of(column_medians(own[during]) / column_medians(own[outside]))
    rise = mean(data[during], 0) - max(work, 1.0) * mean(data[outside], 0)
    error = np.array([_error_of_mean(column[np.isfinite(column)]) for column in data[outside].T])
    error *= np.sqrt(1.0 + outside.sum() / during.sum())
    sure = rise >= critical_t(int(outside.sum()), len(rise), len(rise)) * np.maximum(error, NOTHING)
    worth = rise >= RECORDED * column_medians(own[outside])
    order = np.argsort(-np.nan_to_num(rise))
    return {int(column): float(rise[column]) for column in order if (sure & worth)[column]}


def _error_of_mean(values: FloatGrid) -> float:
    """Of a mean."""
    if values.size < 2:
        return float("inf")
    rest = values - values.mean()
    return float(np.sqrt(np.mean(rest**2) / values.size)) * autocorrelation_factor(rest)


def without_shared_cooling(grid: Grid, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, of which those of GPUs that a hot room holds back are one `structure`.

    The GPUs with the least margin are held back first. How far heat holds a GPU back has one side
    and one scale, as an exponential does: who is slower than the largest of so many would be by
    chance is so by more than the room.

    Of a node those count that are slower by as much as half of the slowest of its ranks.
    """
    if any(key not in grid.signals for key in (TEMPERATURE, SM_CLOCK)):
        return tuple(findings)
    places: dict[Hashable, list[Finding]] = {}
    for finding in findings:
        if finding.kind == "slow":
            whole = finding.details.get("part") or finding.details.get("node")
            places.setdefault((finding.rank, finding.first) if whole is None else whole, []).append(
                finding
            )
    shared = [finding for some in places.values() if _by_room(grid, some) for finding in some]
    if not shared:
        return tuple(findings)
    whole = [
        finding
        for finding in findings
        if finding.kind == "change" and _overlaps(grid, finding, shared)
    ]
    gone = {id(one) for one in (*shared, *whole)}
    left = tuple(finding for finding in findings if id(finding) not in gone)
    return (*left, _hot_room(grid, shared, whole))


def _by_room(grid: Grid, some: Sequence[Finding]) -> bool:
    most = max(np.log(finding.slowdown) for finding in some)
    plain = [finding for finding in some if shows(float(np.log(finding.slowdown)), float(most))]
    return all(_held_by_room(grid, finding) for finding in plain)


def _held_by_room(grid: Grid, finding: Finding) -> bool:
    """Whether a GPU computes slower at a lower clock, is hot, and no more than all others became.

    A GPU that its own cooling fails is hotter than the others by more than it was, or before them;
    one that is held back by power is cooler than they are. How much slower the middle rank became
    is no excess.
    """
    column = column_of(grid, finding.rank)
    during, before = _during_and_before(grid, finding)
    if column is None or not during.any() or not before.any():
        return False
    steps = np.where(during, grid.to_step - grid.from_step, 0)
    onset = during & (np.cumsum(steps) - steps < STEPS_AT_LEAST)
    heat = grid.signals[TEMPERATURE]
    now, at_onset, usual = (column_medians(heat[side]) for side in (during, onset, before))
    elsewhere = np.array([info.node != grid.ranks[column].node for info in grid.ranks])
    common, soon = (median_of((hot - usual)[elsewhere]) for hot in (now, at_onset))
    cooler, own_rise = median_of(now) - now[column], now[column] - usual[column]
    # Where heat holds back most of them, all are as hot, whatever they were.
    more = min(own_rise - common, -cooler)
    if not (soon >= HOTTER and more <= DEGREE and cooler <= DEGREE):
        return False
    slow, fast = (column_medians(grid.signals[SM_CLOCK][side])[column] for side in (during, before))
    slower, faster = (np.log(mean(grid.time["own"][side], 0)) for side in (during, before))
    excess = slower - faster - median_of(slower - faster)
    if not shows(float(np.log(fast / slow)), float(excess[column])):
        return False
    held = np.delete(excess, column)
    held = held[held >= RECORDED]
    return bool(
        excess[column] <= held.sum() / max(len(held), 1) * np.log((1 + len(held)) / FALSE_ALARM)
    )


def _during_and_before(grid: Grid, finding: Finding) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(W,) windows of a finding, and those before it."""
    usable = ~grid.masked
    return usable & finding.inside(grid), usable & (np.arange(len(grid.start)) < finding.first)


def _overlaps(grid: Grid, finding: Finding, shared: Sequence[Finding]) -> bool:
    return any((finding.inside(grid) & each.inside(grid)).any() for each in shared)


def _hot_room(grid: Grid, shared: Sequence[Finding], whole: Sequence[Finding]) -> Finding:
    """What GPUs share, as one finding; how much longer steps are as the whole run's tells."""
    first = min(finding.first for finding in shared)
    slowest = sorted(shared, key=lambda finding: -finding.slowdown)
    ranks = list(dict.fromkeys(finding.rank for finding in slowest if finding.rank is not None))
    during, before = _during_and_before(grid, replace(shared[0], first=first, last=None))
    heat: FloatGrid = grid.signals[TEMPERATURE]
    rise = median_of(column_medians(heat[during]) - column_medians(heat[before]))
    wall = column_medians(grid.time["wall"].T)
    ratio = max(float(np.nanmean(wall[during]) / np.nanmean(wall[before])), 1.0)
    observed = (
        f"the GPUs of all nodes became hotter by {rise:.0f} °C, and heat holds back from step"
        f" {grid.from_step[first]} those with the least margin, most of all rank"
        f"{'s' if len(ranks) > 1 else ''} {listed(ranks[:NAMED])}: the room is hot, and no node"
    )
    shown = replace(
        slowest[0],
        first=first,
        last=None,
        slowdown=whole[0].slowdown if whole else ratio,
        interval=whole[0].interval if whole else (ratio, ratio),
    )
    return _shared_finding(SHARED_COOLING, ranks, shown, observed, "look at what cools it")


def _shared_finding(
    kind: str, ranks: Sequence[int], shown: Finding, observed: str, advice: str
) -> Finding:
    """What ranks share, as one finding that accuses nobody.

    Args:
        kind: A key of `RANKS`.
        ranks: Those that show it, the slowest first.
        shown: Has the span, slowdown and score.
        observed: The facts in words.
        advice: What to look at.
    """
    return replace(
        shown,
        detector="effects", kind="structure", rank=None, share={},
        text=f"{observed}; {advice}",
        details={"uniform": False, "kind": kind, RANKS[kind]: ranks, OBSERVED: observed},
    )  # fmt: skip
