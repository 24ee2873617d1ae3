"""A signal in a finding's span against before and against the peers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.labels import series_parts
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid, RankInfo
from lockstep.analyzer.stats.significance import FLOOR
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import METRICS, Kind, Series
from lockstep.collector.contract.words import Phase

Middle = Callable[[NDArray[np.float64]], Any]

COMPUTE_PHASES: tuple[str, ...] = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
QUEUED = 2 * float(np.expm1(FLOOR))
"""Share of time ready to run without a processor, above before and above the peers, that matters:
twice the smallest slowdown that is recorded, since half of it falls into waiting for peers."""


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """Medians over windows, in the signal's unit (counters: per second); NaN = did not answer."""

    before: float
    during: float
    peers: float

    @property
    def risen(self) -> float:
        """During, less the larger of before and the peers' during; who did not answer is 0."""
        other = max(float(np.nan_to_num(self.before)), float(np.nan_to_num(self.peers)))
        return self.during - other


def signal_before_after(grid: Grid, finding: Finding, key: Series) -> BeforeAfter | None:
    """A telemetry signal of the finding's rank; None if it did not answer during the finding."""
    return None if key not in grid.signals else contrast(grid, finding, grid.signals[key])


def time_before_after(grid: Grid, finding: Finding, name: str) -> BeforeAfter | None:
    """The same for `Grid.time`, seconds per step."""
    return contrast(grid, finding, grid.time[name])


def contrast(
    grid: Grid, finding: Finding, cells: FloatGrid, middle: Middle = np.median
) -> BeforeAfter | None:
    """The same for (W, R) cells; of times it is the mean that has shares."""
    column = column_of(grid, finding.rank)
    if column is None:
        return None
    usable, inside = ~grid.masked, finding.inside(grid)
    during = usable & inside
    before = usable & (np.arange(len(inside)) < finding.first)
    if not before.any():
        before = usable & ~inside
    peers = np.array([c for c in range(len(grid.ranks)) if c != column], dtype=int)
    spans = (cells[before, column], cells[during, column], cells[np.ix_(during, peers)])
    told = BeforeAfter(*(_over(span, middle) for span in spans))
    return None if np.isnan(told.during) else told


def clock_event(reason: str) -> Series:
    """The signal of a clock-event (throttle) reason."""
    return metrics.GPU_CLOCK_EVENT_SECONDS.series(reason=reason)


SM_CLOCK = metrics.GPU_CLOCK.series(domain="sm")
SM_CLOCK_MAX = metrics.GPU_CLOCK_MAX.series(domain="sm")


def compute_share(grid: Grid, finding: Finding) -> float | None:
    """Share of the excess own time in forward, backward and optimizer.

    None where the program names no forward and no backward pass: it may compute anywhere then.
    """
    column = column_of(grid, finding.rank)
    named = (grid.time[phase][:, column] for phase in (Phase.FORWARD, Phase.BACKWARD))
    if column is not None and not any((np.nan_to_num(cells) > 0).any() for cells in named):
        return None
    return sum(finding.share.get(phase, 0.0) for phase in COMPUTE_PHASES)


def share_of_excess(grid: Grid, finding: Finding, name: str) -> float | None:
    """What part of the excess own time the growth of a `Grid.time` is; None where not known."""
    # Means, as of all shares: what takes time in one step of five is in no median.
    grew, own = (contrast(grid, finding, grid.time[each], np.mean) for each in (name, "own"))
    if grew is None or own is None or own.risen <= 0:
        return None
    return max(grew.risen, 0.0) / own.risen


def column_of(grid: Grid, rank: int | None) -> int | None:
    """The column of a rank in the Grid."""
    return next((c for c, info in enumerate(grid.ranks) if info.rank == rank), None)


def has_gpu(grid: Grid, rank: int | None) -> bool:
    """Whether the rank has a GPU, real or simulated; without a rank, whether any has."""
    column = column_of(grid, rank)
    told = grid.ranks if column is None else (grid.ranks[column],)
    return any(info.gpu is not None for info in told)


def gpu_words(grid: Grid, rank: int | None) -> str:
    """`the GPU`, or `the simulated GPU` where its info series says so."""
    column = column_of(grid, rank)
    for key, values in grid.last.items():
        metric, labels = series_parts(key)
        if metric != metrics.GPU_INFO.name or ("simulated", "true") not in labels:
            continue
        if column is not None and np.isfinite(values[column]):
            return "the simulated GPU"
    return "the GPU"


def query(grid: Grid, finding: Finding, key: str) -> str:
    """The PromQL that shows a signal of the finding's rank."""
    metric, labels = series_parts(key)
    column = column_of(grid, finding.rank)
    known = METRICS.get(metric)
    selectors = [f'{name}="{value}"' for name, value in labels]
    if column is not None:
        selectors += _place(grid.ranks[column], known.labels if known else (), grid.run)
    selector = f"{metric}{{{','.join(selectors)}}}"
    return f"rate({selector}[30s])" if known and known.kind is Kind.COUNTER else selector


def _place(info: RankInfo, labels: tuple[str, ...], run: str) -> list[str]:
    if "rank" in labels:
        return [f'run="{run}"', f'rank="{info.rank}"']
    gpu = [f'gpu="{info.gpu}"'] if "gpu" in labels and info.gpu is not None else []
    return [f'node="{info.node}"', *gpu]


def _over(cells: NDArray[np.float64], middle: Middle) -> float:
    there = cells[np.isfinite(cells)]
    return float(middle(there)) if there.size else float("nan")
