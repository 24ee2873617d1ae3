"""Published rules of peers, re-implemented from their papers and documentation on our Grid.

They see the same run as the verdict does. Each answers with the ranks that it accuses.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.collector.contract import metrics


def lasting(grid: Grid, above: NDArray[np.bool_], length: FloatGrid, seconds: float) -> list[int]:
    """Ranks that are above in looks one after the other that last at least so long.

    Args:
        grid: For the names of the columns.
        above: (V, R) of each look.
        length: (V,) seconds that a look stands for.
        seconds: How long.
    """
    run, most = np.zeros(above.shape[1]), np.zeros(above.shape[1])
    for row, took in zip(above, length, strict=True):
        run = np.where(row, run + took, 0.0)
        most = np.maximum(most, run)
    return [grid.ranks[column].rank for column in np.flatnonzero(most >= seconds)]


# Minder's rule (NSDI'25, arXiv 2411.01791) without its denoising LSTM-VAE: raw windows instead.
#
# For one metric after the other: min-max over machines and time, windows of 8 samples, the sum of a
# machine's distances to all others divided by how many there are; the farthest machine, where it is
# beyond the threshold, for four minutes, is accused. Machines are ranks here, because most of the
# metrics are a GPU's. Minder tries its metrics in a learned order; ours follows it: PFC, CPU, GPU
# (duty cycle, power, graphics or tensor activity), NVLink. Its threshold is not published as a
# number; three standard deviations of the distances is the usual cut.

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


# NVIDIA Resiliency Extension's straggler detection (nvidia.github.io/nvidia-resiliency-ext).
#
# Relative score of a rank: the least over ranks of the median duration, over its own median;
# individual score: its own least median so far, over its median now. A report every 300 s flags
# scores under 0.75. NVRx weighs each CUDA kernel by its share of time without NCCL's; windows have
# no kernels, so the one section here is the step outside collectives.

SCORE_THRESHOLD = 0.75
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
        flagged |= (np.nanmin(medians) / medians < SCORE_THRESHOLD) | (
            least / medians < SCORE_THRESHOLD
        )
    return [grid.ranks[column].rank for column in np.flatnonzero(flagged)]


def _medians(own: np.ndarray) -> np.ndarray:
    """(R,) NaN for a rank that told nothing."""
    there = np.isfinite(own).any(axis=0)
    made = np.full(own.shape[1], np.nan)
    made[there] = np.nanmedian(own[:, there], axis=0)
    return made


# Plain z-score: own time more than three standard deviations above the mean of all ranks.
#
# With n ranks no z-score exceeds (n - 1) / sqrt(n) (Samuelson, JASA 1968), 2.47 for 8 ranks: in
# small runs the rule cannot speak.

MOST = 3.0
ZSCORE_SECONDS = 60.0
"""For so long; a single step above it is noise (1 in 741 by chance)."""


def zscore(grid: Grid) -> Sequence[int]:
    """Ranks whose z-score stays above three."""
    own = grid.time["own"][~grid.masked]
    there = np.isfinite(own).all(axis=1)
    own = own[there]
    if own.shape[0] == 0 or own.shape[1] < 2:
        return ()
    deviation = np.maximum(own.std(axis=1, keepdims=True), np.finfo(float).tiny)
    above = (own - own.mean(axis=1, keepdims=True)) / deviation > MOST
    windows = np.flatnonzero(~grid.masked)[there]
    return lasting(grid, above, grid.end[windows] - grid.start[windows], ZSCORE_SECONDS)


BASELINES: Mapping[str, Callable[[Grid], Sequence[int]]] = {
    "nvrx": nvrx,
    "minder_distance": minder,
    "zscore": zscore,
}
"""Name in a score -> rule."""


def published_answers(grid: Grid) -> dict[str, list[int]]:
    """Rule -> the ranks that it accuses."""
    return {name: list(rule(grid)) for name, rule in BASELINES.items()}


# Trivial answers: a detector is worth what it is better than these.


def trivial_answers(grid: Grid, seed: int) -> dict[str, int | None]:
    """Baseline -> the rank it accuses, None = nobody.

    `never` accuses nobody; `random` a rank drawn from the seed; `slowest_step` the rank with the
    longest median own time, always; `last_rank` the last.
    """
    ranks = [info.rank for info in grid.ranks]
    if not ranks:
        return dict.fromkeys(("never", "random", "slowest_step", "last_rank"))
    own = grid.time["own"][~grid.masked]
    medians = [
        float(np.median(column[np.isfinite(column)])) if np.isfinite(column).any() else -np.inf
        for column in own.T
    ]
    return {
        "never": None,
        "random": int(np.random.default_rng(seed).choice(ranks)),
        "slowest_step": ranks[int(np.argmax(medians))],
        "last_rank": ranks[-1],
    }
