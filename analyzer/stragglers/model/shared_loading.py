"""Input data that several ranks wait for at a time, or in turn: what they share is slow.

Loaders read ahead. What serves less than all of them ask for holds back whoever's buffer runs
empty, one after another, and each stands out from its peers by far more than noise. One cause of
all of them is likelier than as many that began at the same time: of most nodes it is the file
system that they read, of most ranks of a node the node.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import SHARED_LOADING, Finding, FloatGrid, Grid, Rejected
from lockstep.analyzer.shapes.wording import NAMED, listed
from lockstep.analyzer.stats.changepoint import autocorrelation_factor, column_medians, critical_t
from lockstep.analyzer.stats.robust_stats import (
    MOSTLY,
    NOTHING,
    interval_95,
    mean,
    median_of,
    shows,
)
from lockstep.analyzer.stats.significance import RECORDED
from lockstep.collector.contract.words import Phase

WHOLE_RUN = ("change", "structure")


def without_shared_loading(grid: Grid, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, of which those of a shared trouble are one of kind `structure`.

    Ranks that are slow by data alone are not accused where on most of the other nodes some rank
    waits longer for data as well, by a share of its own time that is recorded, and these together
    by half as much as it does. Those of most ranks of one node are its own.
    """
    slow = list(_by_data(findings))
    left = list(findings)
    for some in _at_once(grid, slow):
        shared = _shared(grid, some, slow)
        if shared:
            told = _told(grid, shared, slow)
            whole = [
                one for one in left
                if one.kind in WHOLE_RUN and "stage" not in one.details
                and _same_time(grid, one, told)
            ]  # fmt: skip
            if whole:
                told = replace(
                    told, slowdown=whole[0].slowdown, interval=whole[0].interval,
                    score=whole[0].score,
                )  # fmt: skip
            gone = {id(one) for one in (*shared, *whole)}
            left = [*(one for one in left if id(one) not in gone), told]
        of_node = _of_node(grid, [one for one in some if one not in shared])
        left = [of_node.get(id(one), one) for one in left]
    return tuple(left)


def let_go(findings: Sequence[Finding], named: Sequence[int | None]) -> Iterator[Rejected]:
    """Who would be slow by itself, and is not alone; but for those named for another reason."""
    for one in findings:
        for rank in one.details.get("lacking", ())[:NAMED]:
            if rank not in named:
                yield Rejected(
                    rank, "waits for its input data, as ranks of other nodes do meanwhile"
                )


def _by_data(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Those of ranks, nodes and racks that are slow by data, most of their ranks at least."""
    scopes: dict[object, list[Finding]] = {}
    for one in findings:
        if one.kind == "slow":
            whole = one.details.get("part") or one.details.get("node")
            scopes.setdefault(one.rank if whole is None else whole, []).append(one)
    for some in scopes.values():
        if 2 * sum(one.share.get(Phase.DATA, 0.0) >= MOSTLY for one in some) >= len(some):
            yield from some


def _of_node(grid: Grid, some: Sequence[Finding]) -> dict[int, Finding]:
    """By identity, those of ranks that are most of their node's, about the node then."""
    nodes: dict[str, list[Finding]] = {}
    node_of = {info.rank: info.node for info in grid.ranks}
    for one in some:
        if one.rank is not None and "node" not in one.details:
            nodes.setdefault(node_of[one.rank], []).append(one)
    ranks = Counter(node_of.values())
    return {
        id(one): replace(one, details={**one.details, "node": node})
        for node, mine in nodes.items()
        if 2 * len({one.rank for one in mine}) > max(ranks[node], 2)
        for one in mine
    }


def _at_once(grid: Grid, slow: Sequence[Finding]) -> Iterator[list[Finding]]:
    """The findings that overlap or take turns: no further apart than the longer one lasts."""
    some: list[Finding] = []
    for one in sorted(slow, key=lambda each: each.first):
        if some:
            stop = max(_stop(grid, each) for each in some)
            longest = max(_stop(grid, each) - each.first for each in (*some, one))
            if one.first - stop > longest:
                yield some
                some = []
        some.append(one)
    if some:
        yield some


def _stop(grid: Grid, finding: Finding) -> int:
    return len(grid.start) if finding.last is None else finding.last


def _same_time(grid: Grid, one: Finding, other: Finding) -> bool:
    """Whether they share half of all windows that either has."""
    both = [each.inside(grid) for each in (one, other)]
    return bool(2 * (both[0] & both[1]).sum() >= (both[0] | both[1]).sum())


def _shared(grid: Grid, some: Sequence[Finding], slow: Sequence[Finding]) -> list[Finding]:
    """Those of some findings whose ranks lack data by no more than twice what other nodes do."""
    longer = _longer(grid, *_sides(grid, some, slow))
    of_rank = {grid.ranks[column].rank: seconds for column, seconds in longer.items()}
    of_node: dict[str, float] = {info.node: 0.0 for info in grid.ranks}
    for info in grid.ranks:
        of_node[info.node] += of_rank.get(info.rank, 0.0)
    node_of = {info.rank: info.node for info in grid.ranks}
    found = []
    for one in some:
        rank = -1 if one.rank is None else one.rank
        others = [seconds for node, seconds in of_node.items() if node != node_of.get(rank)]
        most = 2 * sum(seconds > 0 for seconds in others) > len(others)
        if most and shows(sum(others), of_rank.get(rank, 0.0)):
            found.append(one)
    return found


def _sides(
    grid: Grid, some: Sequence[Finding], slow: Sequence[Finding]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(W,) windows from the first of some findings to the last, and those outside all."""
    first, stop = min(one.first for one in some), max(_stop(grid, one) for one in some)
    place = np.arange(len(grid.start))
    during = ~grid.masked & (place >= first) & (place < stop)
    return during, ~grid.masked & ~during & ~np.any([one.inside(grid) for one in slow], axis=0)


def _told(grid: Grid, shared: Sequence[Finding], slow: Sequence[Finding]) -> Finding:
    """What nodes share, as one finding."""
    during, outside = _sides(grid, shared, slow)
    longer = _longer(grid, during, outside)
    node_of = {info.rank: info.node for info in grid.ranks}
    ranks = [grid.ranks[column].rank for column in longer]
    ranks += [one.rank for one in shared if one.rank is not None and one.rank not in ranks]
    nodes, every = {node_of[rank] for rank in ranks}, set(node_of.values())
    wall = column_medians(grid.time["wall"].T)
    now, usual = (wall[side & np.isfinite(wall)] for side in (during, outside))
    effect = max(float(np.log(now.mean() / usual.mean())), 0.0)
    error = float(np.hypot(*(_error(side) / side.mean() for side in (now, usual))))
    low, ratio, high = interval_95(effect, error)
    first, stop = min(one.first for one in shared), max(_stop(grid, one) for one in shared)
    last = None if any(one.last is None for one in shared) else stop
    until = "" if last is None else f" to step {grid.to_step[last - 1]}"
    text = (
        f"ranks of {len(nodes)} of {len(every)} nodes wait for their input data from step"
        f" {grid.from_step[first]}{until}, most of all rank{'s' if len(ranks) > 1 else ''}"
        f" {listed(ranks[:NAMED])}: what they share is slow, and no node; look at the file system"
        " or object store that they read, and the way to it"
    )
    return Finding(
        detector="effects", kind="structure", rank=None, first=first, last=last,
        slowdown=float(ratio), interval=(float(low), float(high)), score=shared[0].score, share={},
        text=text, details={"uniform": False, "kind": SHARED_LOADING, "lacking": ranks},
    )  # fmt: skip


def _longer(grid: Grid, during: NDArray[np.bool_], outside: NDArray[np.bool_]) -> dict[int, float]:
    """By column, seconds a step by which ranks wait longer for data than more work takes.

    Of those that do so for certain and by what is recorded, the longest first.
    """
    if not during.any() or not outside.any():
        return {}
    data, own = grid.time[Phase.DATA], grid.time["own"]
    work = median_of(column_medians(own[during]) / column_medians(own[outside]))
    rise = mean(data[during], 0) - max(work, 1.0) * mean(data[outside], 0)
    error = np.array([_error(column[np.isfinite(column)]) for column in data[outside].T])
    error *= np.sqrt(1.0 + outside.sum() / during.sum())
    sure = rise >= critical_t(int(outside.sum()), len(rise), len(rise)) * np.maximum(error, NOTHING)
    worth = rise >= RECORDED * column_medians(own[outside])
    order = np.argsort(-np.nan_to_num(rise))
    return {int(column): float(rise[column]) for column in order if (sure & worth)[column]}


def _error(values: FloatGrid) -> float:
    """Of a mean."""
    if values.size < 2:
        return float("inf")
    rest = values - values.mean()
    return float(np.sqrt(np.mean(rest**2) / values.size)) * autocorrelation_factor(rest)
