"""Ranks that write checkpoints longer than those who write with them.

Steps with a checkpoint are slow by design and left out of every other comparison.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import MEDIAN_EFFICIENCY, column_medians, critical_t
from analyzer.slowness.others import others_median
from analyzer.slowness.peer_groups import MAJORITY, peer_groups
from analyzer.slowness.robust_stats import NOTHING, interval_95
from analyzer.slowness.transfers import median
from collector.contract.robust import MAD_TO_SIGMA
from collector.contract.words import Phase

WRITES_AT_LEAST = 2
"""Checkpoints: a single one may meet a busy file system."""
MOSTLY = 0.75
"""Share of them that take longer by half of the usual excess."""
WRITER = 0.1
"""Share of the longest, from which a rank is one that writes: where rank 0 writes for all, it has
no peers and nobody accuses it."""
LONGER = float(np.log(1.3))
COSTS = 0.01
"""Share of the run's time that its excess takes."""
NOISE_FLOOR = 0.02
"""Of a write: file systems are no steadier."""


class Checkpoints:
    """log of the seconds of each write over the middle writer's of the stratum, rank by rank.

    The first replica may write more by design, what all replicas have in common: of its ranks only
    what one takes beyond the others of them counts.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """One finding of kind `slow` for each rank that takes longer nearly every time."""
        writes = _writes(grid)
        seconds = np.array([_seconds(grid, windows) for windows in writes])
        if len(writes) < WRITES_AT_LEAST:
            return ()
        most = np.nanmax(np.where(np.isfinite(seconds), seconds, 0.0), axis=1, keepdims=True)
        seconds = np.where(seconds >= WRITER * np.maximum(most, NOTHING), seconds, np.nan)
        over, middle = np.full_like(seconds, np.nan), np.full_like(seconds, np.nan)
        strata = [_writers(seconds, columns) for columns in peer_groups(grid).values()]
        strata = [writers for writers in strata if len(writers) >= MAJORITY]
        for writers in strata:
            middle[:, writers] = column_medians(seconds[:, writers].T)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            over = np.log(seconds / middle)
        over -= _by_design(grid, over)
        return [
            finding
            for writers in strata
            for finding in _of_stratum(grid, writes, seconds, over, middle, writers)
        ]


def _writers(seconds: FloatGrid, columns: NDArray[np.int64]) -> NDArray[np.int64]:
    told: NDArray[np.int64] = columns[
        np.isfinite(seconds[:, columns]).sum(axis=0) >= WRITES_AT_LEAST
    ]
    return told


def _by_design(grid: Grid, over: FloatGrid) -> FloatGrid:
    """(n, R) how much longer the other ranks of the first replica write; NaN where it has none."""
    first = np.array([info.dp == 0 for info in grid.ranks])
    design = np.zeros_like(over)
    design[:, first] = others_median(over[:, first], axis=1)
    return design


def _of_stratum(
    grid: Grid, writes: Sequence[NDArray[np.int64]], seconds: FloatGrid, over: FloatGrid,
    middle: FloatGrid, writers: NDArray[np.int64],
) -> list[Finding]:  # fmt: skip
    found: list[Finding] = []
    sigma = MAD_TO_SIGMA * median(np.abs(over[:, writers]))
    steps = grid.to_step - grid.from_step
    total = float(np.nansum(column_medians(grid.time["wall"].T) * steps))
    asked = critical_t(over[:, writers].size, 1, len(writers))
    for column in writers.tolist():
        mine = over[np.isfinite(over[:, column]), column]
        if len(mine) < WRITES_AT_LEAST:
            continue
        effect = float(np.median(mine))
        error = MEDIAN_EFFICIENCY * max(sigma, NOISE_FLOOR) / float(np.sqrt(len(mine)))
        longer = np.nansum(seconds[:, column] - middle[:, column])
        if (
            effect >= max(LONGER, asked * error)
            and np.mean(mine >= effect / 2) >= MOSTLY
            and COSTS * total <= longer < total
        ):
            cost = float(longer) / (total - float(longer))
            found.append(_finding(grid, column, writes, effect, error, middle[:, column], cost))
    return found


def _writes(grid: Grid) -> list[NDArray[np.int64]]:
    """The windows of each checkpoint: neighbours in which anybody writes."""
    told = np.nan_to_num(grid.time[Phase.CHECKPOINT])
    windows = np.flatnonzero((told > 0).any(axis=1))
    return np.split(windows, np.flatnonzero(np.diff(windows) > 1) + 1) if len(windows) else []


def _seconds(grid: Grid, windows: NDArray[np.int64]) -> FloatGrid:
    """(R,) that each rank wrote; NaN of one that told nothing."""
    steps = (grid.to_step - grid.from_step)[windows, None]
    told: FloatGrid = grid.time[Phase.CHECKPOINT][windows]
    written = np.nansum(told * steps, axis=0)
    return np.where(np.isfinite(told).any(axis=0), written, np.nan)


def _finding(
    grid: Grid, column: int, writes: Sequence[NDArray[np.int64]], effect: float, error: float,
    middle: FloatGrid, cost: float,
) -> Finding:  # fmt: skip
    """The slowdown is that of all its steps: between checkpoints it is as fast as the others."""
    info, first = grid.ranks[column], int(writes[0][0])
    (low, ratio, high), usual = interval_95(effect, error), float(np.nanmean(middle))
    share = [(bound - 1.0) / (ratio - 1.0) for bound in (low, high)]
    text = (
        f"rank {info.rank} took {ratio * usual:.1f} s to write each of {len(writes)} checkpoints,"
        f" the others {usual:.1f} s: {ratio:.2f}x ({low:.2f} to {high:.2f})"
    )
    return Finding(
        detector="checkpoints",
        kind="slow",
        rank=info.rank,
        first=first,
        last=None,
        slowdown=1.0 + cost,
        interval=(1.0 + max(share[0], 0.0) * cost, 1.0 + share[1] * cost),
        score=effect / error,
        share={Phase.CHECKPOINT: 1.0},
        text=text,
        details={"query": "checkpoint_seconds of steps.parquet by rank", "from_start": False},
    )
