"""Effects as findings: one of each rank that is slow, in which kind, and since when."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import OBSERVED, Finding, FloatGrid, Grid
from lockstep.analyzer.shapes.wording import NAMED
from lockstep.analyzer.stats.changepoint import Blocks
from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.analyzer.stats.robust_stats import interval_95
from lockstep.analyzer.stats.significance import STEPS_AT_LEAST, slow_finding, span_edges
from lockstep.analyzer.stragglers.confidence import HEAVY, LIKELIER, UNPLACED
from lockstep.analyzer.stragglers.model.candidate import Candidate, Edges
from lockstep.analyzer.stragglers.model.roles import (
    AGAIN,
    ROLE,
    crept,
    equal_roles_known,
    of_standing,
    roles_differ,
)


def findings_of(
    sure: Candidate, candidate: Candidate, accused: Collection[int], *, half: bool
) -> Iterator[Finding]:
    """Of each rank of the scope; how a node's ranks are slow is theirs, when is the node's.

    Args:
        sure: As it was found.
        candidate: The same with its size in all of own time.
        accused: Columns of all ranks that are slow.
        half: Whether they are half of its peers, and it always was slow.
    """
    table, scope = candidate.table, candidate.scope
    inside = np.isin(table.usable, np.concatenate(candidate.groups.members))
    edges, place_confidence = sure.edges, sure.place_confidence(accused)
    kind = "slow" if scope.stage is not None or place_confidence >= LIKELIER else UNPLACED
    if kind == "slow" and (half or _may_be_design(sure)):
        kind = HEAVY
        standing, why = of_standing(table.grid, scope.columns.tolist(), half=half)
    if edges is None:
        rest = sure.table.rest[np.isin(sure.table.usable, np.concatenate(sure.groups.members))]
        edges = span_edges(sure.groups, sure.shift, rest[:, sure.column])
    if scope.stage is not None:
        yield _of_stage(candidate, edges)
        return
    creeps = kind == "slow" and roles_differ(table.grid) and _crept(candidate, edges[0])
    kind = UNPLACED if creeps else kind
    alone = _alone_from(
        table.usable[inside], table.rest[inside, candidate.column], candidate.groups
    )
    for index, column in enumerate(scope.columns.tolist()):
        shift = replace(candidate.shift, column=column)
        if not scope.is_rank:
            shift = replace(
                shift, effect=float(candidate.rises[index]), inside=float(candidate.highs[index])
            )
        ratio = table.ranks[inside, column]
        finding = slow_finding(
            table.grid, candidate.groups, shift, scope.peers, "effects", edges, ratio
        )
        more: dict[str, Any] = {"place_confidence": place_confidence, "log_chance": sure.log_chance}
        if finding.last is None and alone is not None:
            more["unended"] = True
            words = f"it had no peer to compare with after step {table.grid.to_step[alone - 1]}"
            finding = replace(finding, last=alone, text=f"{finding.text}; {words}")
        if not scope.is_rank:
            more["node"] = table.grid.ranks[column].node
        if scope.part is not None:
            more["part"] = scope.part
        text = finding.text if scope.alike and scope.majority else _by_its_past(finding)
        if kind == UNPLACED:
            why = "that it is this one is less likely than not: others changed as much"
            if creeps:
                why = "it came little by little, and work differs by rank here: the work may have"
            text = f"{text}; but {why}"
        if kind == HEAVY:
            text, more = f"{text}; {why}", {**more, **standing}
            more |= {ROLE: table.grid.ranks[column].role, AGAIN: sure.by_mean}
        yield replace(finding, kind=kind, text=text, details={**finding.details, **more})


def _may_be_design(sure: Candidate) -> bool:
    """Whether its program may be why, as it never began.

    Where all are known to do the same work it may still log or evaluate again and again, but not
    for longer than identical parts differ at most.
    """
    if not sure.since_start:
        return False
    table = sure.table
    small = sure.by_mean and sure.shift.inside < (table.precision.parts or 0.0)
    return small or not equal_roles_known(table.grid)


def half_is_slow(
    grid: Grid, sure: Candidate, accused: Collection[int], groups: Mapping[int, NDArray[np.int64]]
) -> bool:
    """Whether it always was slow, and half of the nodes are: two kinds of machines look like that.

    Of few nodes half is one, or two by chance. What operations take shows no machine.

    Args:
        grid: The run.
        sure: As it was found.
        accused: Columns of all ranks that are slow.
        groups: Of each column those that are compared with each other.
    """
    group = groups.get(int(sure.scope.columns[0]), sure.scope.columns).tolist()
    nodes = {grid.ranks[column].node for column in group}
    slow = {grid.ranks[column].node for column in group if column in accused}
    several = sure.table.precision.host and len(nodes) > MAJORITY
    return bool(several and sure.since_start and 2 * len(slow) >= len(nodes))


def _crept(candidate: Candidate, first: int) -> bool:
    """Whether it became slower little by little, of what lasts."""
    table, onset = candidate.table, int(np.searchsorted(candidate.table.usable, first))
    if candidate.by_mean or onset == 0:
        return False
    steps = float(np.mean((table.grid.to_step - table.grid.from_step)[table.usable]))
    width = max(round(2 * STEPS_AT_LEAST / steps), MAJORITY)
    return crept(table.rest[:, candidate.column], onset, candidate.shift.effect, width=width)


def _alone_from(windows: NDArray[np.int64], rest: FloatGrid, groups: Blocks) -> int | None:
    """The window after the last in which it could be compared; None where that is the end.

    Where nobody could for a whole block, whether it was still slow is not known.
    """
    known = np.flatnonzero(np.isfinite(rest))
    silent = len(windows) - 1 - int(known[-1])
    return int(windows[known[-1]]) + 1 if silent >= max(map(len, groups.members)) else None


def _of_stage(candidate: Candidate, edges: Edges) -> Finding:
    """What all ranks of a stage share is its work, and no node's fault."""
    shift, scope, grid = candidate.shift, candidate.scope, candidate.table.grid
    first, last = edges
    low, ratio, high = interval_95(shift.effect, shift.error)
    observed = (
        f"all {len(scope.columns)} ranks of stage {scope.stage} took {ratio:.2f}x their own time"
        f" from step {grid.from_step[first]}, those of the other stages did not: not a node's fault"
    )
    return Finding(
        detector="effects",
        kind="structure",
        rank=None,
        first=first,
        last=last,
        slowdown=float(ratio),
        interval=(float(low), float(high)),
        score=shift.score,
        share={},
        text=f"{observed}; look at code, configuration or data of that stage",
        details={
            "stage": scope.stage,
            "uniform": False,
            "known": True,
            OBSERVED: observed,
        },
    )


def _by_its_past(finding: Finding) -> str:
    peers = finding.details["peers"]
    names = ", ".join(f"rank {rank}" for rank in peers[:NAMED])
    more = f" and {len(peers) - NAMED} more" if len(peers) > NAMED else ""
    if finding.details["from_start"]:
        return f"{finding.text}; compared with {names}{more} alone, as no other step was seen"
    return (
        f"{finding.text}; with too few peers to compare, its own past decided: it changed and"
        f" {names}{more} did not"
    )
