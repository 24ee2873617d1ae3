"""Whether a rank of a foreign program is proven to do the same work as those beside it.

Then what it takes longer since the first step is likelier its own slowness than its program's
design, though no hardware says so.
"""

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.align.same_work import SAME
from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import column_medians
from lockstep.analyzer.stats.peer_groups import model_name
from lockstep.analyzer.stats.robust_stats import MOSTLY, median_of
from lockstep.analyzer.stats.significance import PARTS_ON_AVERAGE
from lockstep.collector.contract.robust import MAD_TO_SIGMA
from lockstep.collector.contract.words import Phase

NO_TRAINING = (Phase.DATA, Phase.CHECKPOINT, Phase.EVAL, Phase.OTHER)
"""Phases in which a program may do what it likes: rollouts, evaluation, logging."""


def equal_work(grid: Grid, column: int) -> bool:
    """Whether a rank is proven to do the work of the others at its place; False = nobody knows.

    Equal collectives alone prove nothing: who makes rollouts, evaluates or logs takes part in the
    very same all-reduces. Nor do equal tokens: a popular expert computes those of other ranks. All
    of these must hold together, of all ranks at its place on its model of GPU:

    * they are in the same groups and do nothing in them but average gradients, which is the same
      number of all-reduces of the same sizes on every rank, or torch would fail. So no rank hands
      another one work: no tokens for an expert, no activations, no rollouts;
    * the work that each tells of a step (FLOPs, or tokens) is the same in every window, and steps
      vary by less than parts do, or what is told would not be what they take;
    * it is longer in the phase `forward` and in the rest of own time by most of what it is longer
      in all: a slow part lengthens both, while work that nobody tells lies in one of them. All that
      it spends in phases without training would not be most of the excess, so it is not that;
    * more than half of them are quicker by as much in `forward`: of two, or two halves, either may
      be normal.

    What is told wrongly (work that is extra in forward and backward alike, as hooks that log both)
    passes, which is why it is a probability and no certainty (roles.BY_EQUAL_WORK).

    Args:
        grid: The run's windows.
        column: Of the rank.
    """
    mates = _mates(grid, column)
    told = np.flatnonzero(~grid.masked & np.isfinite(grid.time["own"][:, column]))
    if len(mates) < 2 or not len(told) or not _only_average_together(grid, column, mates):
        return False
    own, forward = (grid.time[name][told] for name in ("own", Phase.FORWARD))
    level = _longer(own, column, mates)
    quicker = column_medians(_logs(forward)[:, [column]] - _logs(forward)[:, mates])
    excess = own[:, column] - column_medians(own[:, mates].T)
    elsewhere = sum((grid.time[phase][told, column] for phase in NO_TRAINING), np.zeros(len(told)))
    return bool(
        level >= PARTS_ON_AVERAGE
        and _same_work_told(grid, told, np.append(mates, column))
        and _steady(grid, told, column)
        and 2 * int((quicker >= MOSTLY * level).sum()) > len(mates) + 1
        and _longer(forward, column, mates) >= MOSTLY * level
        and _longer(own - forward, column, mates) >= MOSTLY * level
        and median_of(elsewhere) <= (1.0 - MOSTLY) * median_of(excess)
    )


def _mates(grid: Grid, column: int) -> NDArray[np.int64]:
    """The others at its place, whatever their role, on its model of GPU."""
    mine = grid.ranks[column]
    place = (mine.pp, mine.tp, model_name(mine.model))
    return np.array([
        other for other, info in enumerate(grid.ranks)
        if other != column and (info.pp, info.tp, model_name(info.model)) == place
    ], dtype=np.int64)  # fmt: skip


def _only_average_together(grid: Grid, column: int, mates: NDArray[np.int64]) -> bool:
    mine = grid.ranks[column].exchange
    if mine is None or not mine.only_averages or mine.peers or not mine.groups:
        return False
    return all(grid.ranks[mate].exchange == mine for mate in mates.tolist())


def _same_work_told(grid: Grid, told: NDArray[np.int64], columns: NDArray[np.int64]) -> bool:
    work = grid.work_by_rank
    if work is None:
        return False
    cells = work[np.ix_(told, columns)]
    # Of a window in which a rank did not answer nothing is compared.
    answered = np.isfinite(grid.time["own"][np.ix_(told, columns)])
    known = cells[answered]
    if not (np.isfinite(known).all() and (known > 0).all()):
        return False
    logs = np.where(answered, np.log(np.where(answered, cells, 1.0)), np.nan)
    return bool(np.nanmax(np.nanmax(logs, axis=1) - np.nanmin(logs, axis=1)) <= SAME)


def _steady(grid: Grid, told: NDArray[np.int64], column: int) -> bool:
    """Whether its steps vary by less than parts differ; windows of several steps hide it."""
    own = np.log(grid.time["own"][told, column])
    steps = median_of((grid.to_step - grid.from_step)[told].astype(float))
    sigma = MAD_TO_SIGMA * median_of(np.abs(own - median_of(own)))
    return bool(sigma * np.sqrt(steps) <= PARTS_ON_AVERAGE)


def _longer(seconds: FloatGrid, column: int, mates: NDArray[np.int64]) -> float:
    """The middle of the log of its seconds over the others'; NaN where one took none."""
    log = _logs(seconds)
    if not np.isfinite(log[:, [column, *mates.tolist()]]).any(axis=0).all():
        return float("nan")
    return median_of(log[:, column] - column_medians(log[:, mates].T))


def _logs(seconds: FloatGrid) -> FloatGrid:
    logs: FloatGrid = np.log(np.where(seconds > 0, seconds, np.nan))
    return logs
