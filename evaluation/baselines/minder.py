"""Minder's rule (NSDI'25, arXiv 2411.01791) without its denoising LSTM-VAE: raw windows instead.

For one metric after the other: min-max over machines and time, windows of 8 samples, the sum of a
machine's distances to all others divided by how many there are; the farthest machine, where it is
beyond the threshold, for four minutes, is accused. Machines are ranks here, because most of the
metrics are a GPU's. Minder tries its metrics in a learned order; ours follows it: PFC, CPU, GPU
(duty cycle, power, graphics or tensor activity), NVLink. Its threshold is not published as a
number; three standard deviations of the distances is the usual cut.
"""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.collector.contract import metrics
from lockstep.evaluation.baselines.lasting import lasting

ORDER: tuple[str, ...] = (
    metrics.NET_PAUSE.name, metrics.TRAIN_CPU.name, metrics.GPU_UTILIZATION.name,
    metrics.GPU_POWER.name, metrics.GPU_SM_ACTIVE.name, metrics.GPU_NVLINK_ERRORS.name,
)  # fmt: skip
SAMPLES = 8
SECONDS = 240.0
THRESHOLD = 3.0
FEWEST = 3
MOST_RANKS = 512
"""Distances are between all pairs."""


def minder(grid: Grid) -> Sequence[int]:
    """The rank that the first metric with a lasting outlier accuses; at most one."""
    windows = np.flatnonzero(~grid.masked)
    if not FEWEST <= len(grid.ranks) <= MOST_RANKS or len(windows) < SAMPLES:
        return ()
    for metric in ORDER:
        for key, cells in grid.signals.items():
            if key.partition("{")[0] == metric:
                accused = _farthest(grid, windows, cells[windows])
                if accused:
                    return accused[:1]
    return ()


def _farthest(grid: Grid, windows: np.ndarray, cells: FloatGrid) -> list[int]:
    cells = _filled(cells)
    low, high = cells.min(), cells.max()
    if not high > low:
        return []
    scaled = (cells - low) / (high - low)
    # One sample a scrape: neighbouring windows within a scrape repeat its value.
    seconds = float(np.median(np.diff(grid.start[windows]))) if len(windows) > 1 else 1.0
    stride = max(round(grid.scrape_seconds / seconds), 1) if grid.scrape_seconds > 0 else 1
    taken = np.arange(0, len(windows), stride)
    above = np.zeros((len(taken), cells.shape[1]), dtype=bool)
    for place in range(SAMPLES - 1, len(taken)):
        part = scaled[taken[place - SAMPLES + 1 : place + 1]].T
        squares = (part**2).sum(axis=1)
        pairs = squares[:, None] + squares[None, :] - 2.0 * part @ part.T
        distance = np.sqrt(np.maximum(pairs, 0.0)).sum(axis=1) / len(part)
        spread = distance.std()
        far = int(np.argmax(distance))
        if spread > 0 and (distance[far] - distance.mean()) / spread > THRESHOLD:
            above[place, far] = True
    each = np.full(len(taken), seconds * stride)
    return lasting(grid, above, each, SECONDS)


def _filled(cells: FloatGrid) -> FloatGrid:
    """The nearest earlier sample where one is missing (Minder fills so), else the median."""
    made = cells.copy()
    for row in range(1, len(made)):
        gap = ~np.isfinite(made[row])
        made[row, gap] = made[row - 1, gap]
    there = made[np.isfinite(made)]
    made[~np.isfinite(made)] = float(np.median(there)) if there.size else 0.0
    return made
