"""NVIDIA Resiliency Extension's straggler detection (nvidia.github.io/nvidia-resiliency-ext).

Relative score of a rank: the least over ranks of the median duration, over its own median;
individual score: its own least median so far, over its median now. A report every 300 s flags
scores under 0.75. NVRx weighs each CUDA kernel by its share of time and leaves NCCL's out; windows
know no kernels, so the one section here is the step outside collectives.
"""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.shapes.run import Grid

THRESHOLD = 0.75
REPORT_SECONDS = 300.0


def nvrx(grid: Grid) -> Sequence[int]:
    """Ranks that any report flags."""
    own = grid.time["own"]
    usable = ~grid.masked & np.isfinite(own).any(axis=1)
    if not usable.any():
        return ()
    report = ((grid.start - grid.start[usable][0]) // REPORT_SECONDS).astype(np.int64)
    least = np.full(len(grid.ranks), np.inf)
    flagged = np.zeros(len(grid.ranks), dtype=bool)
    for number in np.unique(report[usable]):
        medians = _medians(own[usable & (report == number)])
        if not np.isfinite(medians).any():
            continue
        least = np.fmin(least, medians)
        flagged |= (np.nanmin(medians) / medians < THRESHOLD) | (least / medians < THRESHOLD)
    return [grid.ranks[column].rank for column in np.flatnonzero(flagged)]


def _medians(own: np.ndarray) -> np.ndarray:
    """(R,) NaN for a rank that told nothing."""
    there = np.isfinite(own).any(axis=0)
    made = np.full(own.shape[1], np.nan)
    made[there] = np.nanmedian(own[:, there], axis=0)
    return made
