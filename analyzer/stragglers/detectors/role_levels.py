"""Ranks that differ from the others since the start: more work, or slow; most of foreign programs.

Times alone cannot tell (analyzer.stragglers.model.roles), so such a finding accuses nobody by
itself: the hardware decides (analyzer.stragglers.imbalance), and whether its work is proven to be
the others'.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.causes.symptoms.gpu_errors import WIDTH, pcie
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.stats.before_after import SM_CLOCK
from lockstep.analyzer.stats.changepoint import MEDIAN_EFFICIENCY, NOISE_FLOOR, column_medians
from lockstep.analyzer.stats.peer_groups import MAJORITY, columns_by, model_name, peer_groups
from lockstep.analyzer.stats.robust_stats import interval_95, median_of
from lockstep.analyzer.stats.significance import FLOOR, PARTS_ON_AVERAGE, phase_shares
from lockstep.analyzer.stragglers.confidence import HEAVY
from lockstep.analyzer.stragglers.model.roles import (
    BEGINNING,
    BY_CLOCK,
    ROLE,
    equal_roles_known,
    of_standing,
    standing,
)
from lockstep.collector.contract.robust import MAD_TO_SIGMA


def role_levels(grid: Grid) -> Sequence[Finding]:
    """A finding of kind `heavy` for each rank that always was slower than those of other roles.

    And for each whose GPU's clock always was below that of GPUs of its model: a rank with little
    work may be slow and yet not slower than others. How slow it is its clock tells then. And for
    each that was slower by less than parts differ, on a PCIe link that always carried less.
    """
    if not len(grid.start):
        return ()
    narrow = dict(_narrow_links(grid))
    if equal_roles_known(grid):
        return tuple(narrow.values())
    lower = _lower_clocks(grid)
    found = {
        column: _finding(grid, column, peers, over, error, clock=column in lower)
        for column, over, error, peers in standing(grid)
    }
    return tuple((narrow | found | {
        column: _finding(grid, column, peers, over, error, clock=True)
        for column, (over, error, peers) in lower.items()
    }).values())  # fmt: skip


def _lower_clocks(grid: Grid) -> dict[int, tuple[float, float, NDArray[np.int64]]]:
    """Column -> log of its peers' SM clock over its own, its error, and these peers."""
    clocks, usable = grid.signals.get(SM_CLOCK), np.flatnonzero(~grid.masked)
    if clocks is None or len(usable) < BEGINNING:
        return {}
    clock = np.log(np.where(clocks[usable] > 0, clocks[usable], np.nan))
    found = {}
    for model, columns in columns_by(grid, lambda info: model_name(info.model)).items():
        for column in columns.tolist() if model else ():
            peers = columns[columns != column]
            over = (
                column_medians(clock[:, peers].T) - clock[:, column] if len(peers) else clock[:0, 0]
            )
            parts = [median_of(part) for part in np.array_split(over, BEGINNING)]
            level = median_of(over)
            if level >= PARTS_ON_AVERAGE and min(parts) >= level / 2:
                found[column] = (level, _error(over, level), peers)
    return found


def _narrow_links(grid: Grid) -> Iterator[tuple[int, Finding]]:
    """Columns and findings of ranks on a PCIe link that always carried less than their peers'."""
    usable = np.flatnonzero(~grid.masked)
    if WIDTH not in grid.signals or len(usable) < BEGINNING:
        return
    own = np.log(grid.time["own"][usable])
    for columns in peer_groups(grid).values():
        for column in columns.tolist() if len(columns) >= MAJORITY else ():
            peers = columns[columns != column]
            over = own[:, column] - column_medians(own[:, peers].T)
            parts = [median_of(part) for part in np.array_split(over, BEGINNING)]
            level = median_of(over)
            if not (level >= FLOOR and min(parts) >= level / 2):
                continue
            finding = _finding(grid, column, peers, level, _error(over, level), clock=False)
            link = pcie(grid, finding)
            if link is not None and link.explains and link.grave:
                yield column, finding


def _error(over: FloatGrid, level: float) -> float:
    known = over[np.isfinite(over)]
    sigma = MAD_TO_SIGMA * median_of(np.abs(known - level))
    return max(MEDIAN_EFFICIENCY * sigma / float(np.sqrt(len(known))), NOISE_FLOOR)


def _finding(
    grid: Grid, column: int, peers: NDArray[np.int64], over: float, error: float, *, clock: bool
) -> Finding:
    usable, info = np.flatnonzero(~grid.masked), grid.ranks[column]
    more, why = of_standing(grid, [column])
    low, ratio, high = interval_95(over, error)
    mine = median_of(grid.time["own"][usable, column])
    text = f"rank {info.rank} takes {ratio:.2f}x the own time of other ranks"
    if clock:
        text = f"rank {info.rank}'s GPU runs at 1/{ratio:.2f} of the clock of its peers"
    details: dict[str, Any] = {
        ROLE: info.role,
        BY_CLOCK: clock,
        **more,
        "log_chance": 0.0,
        "peers": [grid.ranks[other].rank for other in peers.tolist()],
        "from_start": True,
        "shape": "constant",
        "own_seconds": mine,
        "own_seconds_before": None,
        "peer_seconds": mine / ratio,
        "critical_score": None,
    }
    return Finding(
        detector="role_levels",
        kind=HEAVY,
        rank=info.rank,
        first=int(usable[0]),
        last=None,
        slowdown=ratio,
        interval=(low, high),
        score=over / max(error, NOISE_FLOOR),
        share=phase_shares(grid, column, peers, usable, usable, throughout=True),
        text=f"{text} in all steps seen; {why}",
        details=details,
    )
