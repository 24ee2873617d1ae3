"""Telemetry that cannot be true because it never moves: it is left out, as missing.

Telemetry that contradicts itself stays; `gpu_state.contradiction` is a symptom.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.align.telemetry import OnDemand
from lockstep.analyzer.causes.symptoms.gpu_state import LIMITED
from lockstep.analyzer.causes.symptoms.series import scrape_seconds, series_name
from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.robust_stats import spread
from lockstep.collector.contract import metrics

SOURCE = "lockstep_gpu_"
POWER = metrics.GPU_POWER.series()
SCRAPES = 10
"""A gauge that is measured, with noise, differs from scrape to scrape; the same value as often as
this, where most peers' moves, is a value that is not read any more. Chosen: two and a half minutes
at 15 s."""


def stands_still(
    cells: FloatGrid, resolution: float, kind: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """(D,) whether a series kept one value all along while most of its peers' moved.

    Where most stand still the whole fleet reports that way, and no single sensor is stuck.

    Args:
        cells: (T, D) a gauge.
        resolution: The smallest difference that its sensor reports.
        kind: (D,) numbers of who are peers; None = all are.
    """
    kind = np.zeros(cells.shape[1], dtype=np.int64) if kind is None else kind
    known_cells = np.isfinite(cells)
    top = np.max(cells, axis=0, initial=-np.inf, where=known_cells)
    still = top == np.min(cells, axis=0, initial=np.inf, where=known_cells)
    moving = spread(cells, 0) > resolution
    count = kind.max(initial=0) + 1
    known, moved = (
        np.bincount(kind[some], minlength=count) for some in (known_cells.any(axis=0), moving)
    )
    # Who stands still is one of them, and does not move.
    stuck: NDArray[np.bool_] = still & (2 * moved > known - 1)[kind]
    return stuck


def drop_stuck_sensors(grid: Grid) -> Grid:
    """The Grid without the GPU telemetry that stands still where the peers' moves.

    Power decides, as the one gauge that always moves on a GPU at work; all telemetry of that GPU
    from the same source is dropped with it, and `missing` says so.
    """
    stuck = _stuck(grid)
    if not stuck.any():
        return grid
    make = {key: partial(_without, grid.signals, key, stuck) for key in grid.signals}
    # What never answers is no key.
    signals = OnDemand({key: cells for key, cells in make.items() if np.isfinite(cells()).any()})
    ranks = ", ".join(str(grid.ranks[column].rank) for column in np.flatnonzero(stuck))
    words = (
        f"GPU telemetry of rank {ranks}: it never moves while the peers' does, so it is not used"
    )
    return replace(grid, signals=signals, missing=(*grid.missing, words))


def _without(signals: Mapping[str, FloatGrid], key: str, stuck: NDArray[np.bool_]) -> FloatGrid:
    """(W, R) a series, less what the source of GPUs tells of those whose telemetry is stuck."""
    cells = signals[key]
    return (
        np.where(stuck[None, :], np.nan, cells)
        if series_name(key).metric.startswith(SOURCE)
        else cells
    )


def _stuck(grid: Grid) -> NDArray[np.bool_]:
    """(R,) whether a rank's GPU told one power all along while most peers' moved."""
    power = grid.signals.get(POWER)
    if power is None or not len(grid.start):
        return np.zeros(len(grid.ranks), dtype=bool)
    times = np.where(np.isfinite(power), grid.start[:, None], np.nan)
    length = np.nanmax(times, axis=0, initial=-np.inf) - np.nanmin(times, axis=0, initial=np.inf)
    long: NDArray[np.bool_] = length >= SCRAPES * scrape_seconds(grid)
    return long & stands_still(power, LIMITED.resolution)
