"""Tensor-parallel groups whose exchanges take longer: an NVLink, of which no own time tells."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import (
    Blocks,
    Shift,
    block_means,
    blocks,
    clearest_spans,
    sustained,
)
from analyzer.slowness.group_transfers import OWN, grown
from analyzer.slowness.others import others_median
from analyzer.slowness.peer_groups import MAJORITY
from analyzer.slowness.robust_stats import WITHIN
from analyzer.slowness.transfers import least
from analyzer.symptoms.nvlink import nvlink
from collector.contract import metrics
from collector.contract.words import Phase

FLOOR = 0.05
"""Of a usual step."""
STEPS_AT_LEAST = 20
SECONDS = metrics.TRAIN_COLLECTIVE.series(group="tp")


class TensorGroups:
    """Least seconds a step in the group's collectives: the last to come waits for nobody.

    Inside a layer all members wait for the slowest link, so nobody's own time grows and the group
    is all that times can tell. Its member is the one whose NVLinks are down or count errors,
    of several the one of which they do since then; with none the finding accuses nobody.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """A finding a group at most: `slow` accuses its rank, `network` does not."""
        cells = grid.signals.get(SECONDS)
        groups = blocks(grid, "wall")
        members = _members(grid)
        if cells is None or len(members) < 2 or not len(groups):
            return ()
        usual = float(np.nanmedian(grid.time["wall"][~grid.masked]))
        a_step = cells * grid.time["wall"]
        series = np.column_stack([least(a_step[:, columns]) for columns in members])
        means = block_means(series / usual, groups, spike=np.inf)
        rest = means - others_median(means, axis=1)
        found = []
        for shift in clearest_spans(rest):
            alone = len(members) < MAJORITY and not _own_rise(means, shift)
            if (
                shift.score >= shift.critical
                and shift.effect >= FLOOR
                and (shift.last - shift.first) * groups.steps >= STEPS_AT_LEAST
                and sustained(rest, shift)
                and not alone
                and not _own_grew(grid, groups, shift, usual)
            ):
                found.append(_finding(grid, groups, shift, members[shift.column], usual))
        return found


def _members(grid: Grid) -> list[NDArray[np.int64]]:
    """The columns of each tensor-parallel group: ranks of one replica and stage."""
    told: dict[tuple[int, int], list[int]] = {}
    for column, info in enumerate(grid.ranks):
        told.setdefault((info.dp, info.pp), []).append(column)
    return [np.array(columns) for columns in told.values() if len(columns) > 1]


def _own_rise(means: FloatGrid, shift: Shift) -> bool:
    """Whether it was this group that changed, and not its only peer."""
    inside = np.zeros(len(means), dtype=bool)
    inside[shift.first : shift.last] = True
    mine = means[:, shift.column]
    return bool(np.nanmedian(mine[inside]) - np.nanmedian(mine[~inside]) >= shift.effect / 2)


def _own_grew(grid: Grid, groups: Blocks, shift: Shift, usual: float) -> bool:
    """Whether a rank's own time grew with it, for which the others may wait, or is not known."""
    inside = np.concatenate(groups.members[shift.first : shift.last])
    outside = np.setdiff1d(np.concatenate(groups.members), inside)
    return grown(grid, inside, outside) >= OWN * shift.effect * usual


def _finding(
    grid: Grid, groups: Blocks, shift: Shift, columns: NDArray[np.int64], usual: float
) -> Finding:
    first = groups.first(shift.first)
    last = None if shift.last == len(groups) else groups.stop(shift.last)
    slowdown, margin = 1.0 + shift.effect, WITHIN * shift.error
    ranks = [grid.ranks[column].rank for column in columns.tolist()]

    def finding(kind: str, rank: int | None, text: str) -> Finding:
        return Finding(
            detector="tensor_groups",
            kind=kind,
            rank=rank,
            first=first,
            last=last,
            slowdown=slowdown,
            interval=(max(slowdown - margin, 1.0), slowdown + margin),
            score=shift.score,
            share={Phase.GRAD_SYNC: 1.0},
            text=text,
            details={
                "critical_score": shift.critical,
                "query": f"rate({SECONDS}[30s])",
                "ranks": ranks,
            },
        )

    words = (
        f"exchanges inside the tensor-parallel group of ranks {ranks[0]} to {ranks[-1]} take"
        f" {shift.effect * usual * 1e3:.1f} ms a step longer than in the other groups from step"
        f" {int(grid.from_step[first])}, and nobody's own time does"
    )
    links = {rank: nvlink(grid, finding("slow", rank, "")) for rank in ranks}
    seen = {rank: symptom for rank, symptom in links.items() if symptom and symptom.seen}
    # One that began at another time is late, or another's; the only one of all that tell, is it.
    at_once = [rank for rank, symptom in seen.items() if symptom.explains]
    troubled = list(seen) if len(seen) == 1 and None not in links.values() else at_once
    if len(troubled) != 1:
        nodes = ", ".join(dict.fromkeys(grid.ranks[column].node for column in columns.tolist()))
        return finding("network", None, f"{words} ({nodes}); no NVLink of theirs tells whose it is")
    (rank,) = troubled
    return finding(
        "slow", rank, f"{words}; of its ranks only rank {rank}'s NVLinks tell of trouble"
    )
