"""Tensor-parallel groups whose exchanges take longer: an NVLink, of which no own time tells."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.causes.symptoms.gpu_errors import nvlink, xid_of
from lockstep.analyzer.shapes.run import Basis, Finding, Grid
from lockstep.analyzer.shapes.waits import least
from lockstep.analyzer.shapes.wording import milliseconds
from lockstep.analyzer.stats.changepoint import column_medians
from lockstep.analyzer.stats.peer_groups import columns_by, peer_groups
from lockstep.analyzer.stats.robust_stats import median_of, shows
from lockstep.analyzer.stats.transfers import TENSOR_SECONDS, USUAL_STEP, exchanges, grown
from lockstep.analyzer.stragglers.confidence import HEAVY
from lockstep.analyzer.stragglers.model.effects import effects
from lockstep.analyzer.stragglers.model.precision import EXCHANGES
from lockstep.collector.contract.words import Cause, Phase


def tensor_groups(grid: Grid) -> Sequence[Finding]:
    """A finding a group at most: `slow` accuses its rank, `network` does not.

    Least seconds a step in the group's collectives: the last to come waits for nobody. Inside a
    layer all members wait for the slowest link, so no own time grows and the group is all
    that times can tell: whose is searched for as a rank's own time is, a usual step and its
    exchanges being that of the group. Its member is the one whose NVLinks are down or count errors,
    or of which the driver logged one; of several the one of which they do since then; with none
    the finding accuses nobody.
    """
    members = {
        grid.ranks[columns[0]].rank: columns
        for columns in columns_by(grid, lambda info: (info.dp, info.pp)).values()
        if len(columns) > 1
    }
    within = exchanges(grid) if len(members) > 1 else None
    if within is None:
        return ()
    usual = median_of(grid.time["wall"][~grid.masked])
    firsts = [int(columns[0]) for columns in members.values()]
    own = usual + np.column_stack([least(within[:, columns]) for columns in members.values()])
    groups = replace(
        grid,
        ranks=tuple(grid.ranks[column] for column in firsts),
        time={name: told[:, firsts] for name, told in grid.time.items()} | {"own": own},
        signals={},
    )
    return [
        finding
        for found in effects(groups, EXCHANGES)
        if found.kind in ("slow", HEAVY)
        and found.rank is not None
        # Else a member's own time is longer with it, for which the others may wait, or not known.
        and not shows(_own_longer(grid, found, members[found.rank]), (found.slowdown - 1.0) * usual)
        and (finding := _of_member(grid, found, members[found.rank], usual))
    ]


def _own_longer(grid: Grid, finding: Finding, columns: NDArray[np.int64]) -> float:
    """Seconds a step by which a member's own time is longer meanwhile, infinite = not known.

    Since it began; where that was not seen, than that of the peers in other groups.
    """
    inside, outside = _windows(grid, finding)
    if len(outside):
        return grown(grid, inside, outside, columns)
    own = column_medians(grid.time["own"][inside])
    longer = [
        own[member] - median_of(own[np.setdiff1d(peers, columns)])
        for peers in peer_groups(grid).values()
        for member in np.intersect1d(peers, columns)
    ]
    return float(np.nan_to_num(longer, nan=np.inf).max(initial=0.0))


def _windows(grid: Grid, finding: Finding) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    inside = finding.inside(grid)
    return np.flatnonzero(inside & ~grid.masked), np.flatnonzero(~inside & ~grid.masked)


def _of_member(
    grid: Grid, finding: Finding, columns: NDArray[np.int64], usual: float
) -> Finding | None:
    """The finding of the member whose link it is; of what never began None where none is bad."""
    seconds = (finding.slowdown - 1.0) * usual
    ranks = [grid.ranks[column].rank for column in columns.tolist()]
    words = (
        f"exchanges inside the tensor-parallel group of ranks {ranks[0]} to {ranks[-1]} take"
        f" {milliseconds(seconds)} a step longer than in the other groups from step"
        f" {int(grid.from_step[finding.first])}, and no own time of theirs does"
    )
    kept = ("critical_score", "log_chance", "place_confidence", "from_start")
    details = {name: finding.details[name] for name in kept}
    details |= {
        "query": f"rate({TENSOR_SECONDS}[30s])",
        "basis": Basis.TELEMETRY,
        "ranks": ranks,
        USUAL_STEP: usual,
    }
    # Groups may exchange in other ways by design: what never began needs a link that is bad.
    never_began = finding.kind == HEAVY or finding.details["from_start"]
    finding = replace(
        finding, detector="tensor_groups", share={Phase.GRAD_SYNC: 1.0}, details=details
    )
    links, logged = (
        {rank: measured(grid, replace(finding, rank=rank)) for rank in ranks}
        for measured in (nvlink, xid_of(Cause.NVLINK))
    )
    seen = {
        rank: symptom
        for rank, symptom in links.items()
        if symptom and symptom.seen and (symptom.grave or not never_began)
    }
    # One that began at another time is late, or another's; the only one of all that tell, is it. An
    # error that was logged is an event of its time alone.
    every = seen.items() if never_began else (*links.items(), *logged.items())
    at_once = list(dict.fromkeys(rank for rank, symptom in every if symptom and symptom.explains))
    troubled = list(seen) if len(seen) == 1 and None not in links.values() else at_once
    if len(troubled) != 1 and never_began:
        return None
    if len(troubled) != 1:
        nodes = ", ".join(dict.fromkeys(grid.ranks[column].node for column in columns.tolist()))
        text = f"{words} ({nodes}); their NVLinks do not show whose it is"
        return replace(finding, kind="network", rank=None, text=text)
    (rank,) = troubled
    text = f"{words}; of its ranks only rank {rank}'s NVLinks report trouble"
    return replace(finding, kind="slow", rank=rank, text=text)
