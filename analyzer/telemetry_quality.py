"""Telemetry that cannot be true: a source that never moves.

It is left out, so that causes say it is not known. What contradicts itself stays, as a symptom.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from analyzer.on_demand import OnDemand
from analyzer.run import FloatGrid, Grid
from analyzer.symptoms.series import SCRAPE_SECONDS
from collector.contract import metrics

SOURCE = "lockstep_gpu_"
POWER = metrics.GPU_POWER.series()
SCRAPES = 10
"""Power of a GPU at work differs at every scrape (NVML tells milliwatts); the same value as often
as this is a value that nobody reads any more."""
MOVES = 3
"""Different values from which a peer's power moves."""


def drop_stuck_sensors(grid: Grid) -> Grid:
    """The Grid without the GPU telemetry that stands still where the peers' moves.

    Power decides, as the one gauge that always moves on a GPU at work; all that the same source
    tells of that GPU goes with it, and `missing` says so.
    """
    stuck = _stuck(grid)
    if not stuck.any():
        return grid
    make = {key: partial(_without, grid.signals, key, stuck) for key in grid.signals}
    # What never answers is no key.
    signals = OnDemand({key: told for key, told in make.items() if np.isfinite(told()).any()})
    ranks = ", ".join(str(grid.ranks[column].rank) for column in np.flatnonzero(stuck))
    words = (
        f"GPU telemetry of rank {ranks}: it never moves while the peers' does, so it is not used"
    )
    return replace(grid, signals=signals, missing=(*grid.missing, words))


def _without(signals: Mapping[str, FloatGrid], key: str, stuck: NDArray[np.bool_]) -> FloatGrid:
    """(W, R) a series, less what the source of GPUs tells of those whose telemetry is stuck."""
    cells = signals[key]
    return np.where(stuck[None, :], np.nan, cells) if key.startswith(SOURCE) else cells


def _stuck(grid: Grid) -> NDArray[np.bool_]:
    """(R,) whether a rank's GPU told one power all along while most peers' moved."""
    power = grid.signals.get(POWER)
    none = np.zeros(len(grid.ranks), dtype=bool)
    if power is None or len(grid.start) < SCRAPES:
        return none
    scrape = grid.scrape_seconds if np.isfinite(grid.scrape_seconds) else SCRAPE_SECONDS
    different = _different(power)
    told = np.where(np.isfinite(power), grid.start[:, None], np.nan)
    first = np.where(np.isfinite(told), told, np.inf).min(axis=0)
    last = np.where(np.isfinite(told), told, -np.inf).max(axis=0)
    one_value: NDArray[np.bool_] = (different == 1) & (last - first >= SCRAPES * scrape)
    moving = different >= MOVES
    # Where most stand still it is how this fleet tells power, and no fault of one.
    if moving.sum() < 2 or 2 * moving.sum() < (different > 0).sum():
        return none
    return one_value


def _different(cells: FloatGrid) -> NDArray[np.int64]:
    """(R,) number of different values that a rank's series took."""
    ordered = np.sort(cells, axis=0)  # NaN last
    steps = np.diff(ordered, axis=0) > 0
    different: NDArray[np.int64] = steps.sum(axis=0) + np.isfinite(cells).any(axis=0)
    return different
