"""How much the GPUs of a job work, and who works on while the others wait.

In a synchronous job every GPU waits for the slowest, so that all work a smaller share of the time
when one becomes slow; that one works on. This needs no step times (docs/method/waits.md: the late
rank waits least).
"""

from dataclasses import dataclass

import numpy as np

from analyzer.anomalies.fleet import ComparablePanel
from analyzer.anomalies.levels import best_split
from analyzer.anomalies.peers import DEVIATES, LASTS_BINS
from analyzer.anomalies.robust import median, nan_median, smooth
from analyzer.run import FloatGrid
from analyzer.slowness.peer_groups import MAJORITY
from analyzer.slowness.significance import TENTH
from collector.contract import metrics
from collector.contract.robust import MAD_TO_SIGMA

FELL = 0.95
"""Share of before to which the peers' activity must fall. On nine recorded healthy runs two
neighbouring spans of NEAR_BINS differ by 1.2 % in the middle, and by less than 4.7 % in nine of
ten cases."""
PEGGED = 0.98
"""Where GPUs spin while they wait, as NCCL's kernels do, utilisation says 1 whatever they do."""
WORKS_ON = TENTH
"""How much more than its peers a GPU must work since, at the least (GREYHOUND verifies 10 %)."""
CONTRAST_SPREAD = 0.05
NEAR_BINS = 12
"""Scrapes before and after an onset in which the peers are looked at."""
EDGE = 0.2
"""Share of the usual activity below which a job has not begun or has ended."""


@dataclass(frozen=True, slots=True)
class Activity:
    """How much each GPU of a job works.

    Attributes:
        values: (T, J) activity, above 0; NaN = not told, or the job was not running.
        name: What it is measured by.
        share: Whether it is a share of the time, so that steps take longer by its inverse.
    """

    values: FloatGrid
    name: str
    share: bool


@dataclass(frozen=True, slots=True)
class Contrast:
    """A GPU that works on since a bin, while its peers work less."""

    column: int
    bin: int
    more: float


def activity(fleet: ComparablePanel, columns: list[int]) -> Activity | None:
    """The most telling series of activity that the job's GPUs have; None without one."""
    for metric, name in (
        (metrics.GPU_SM_ACTIVE.name, "SM activity"),
        (metrics.GPU_UTILIZATION.name, "utilisation"),
        (metrics.GPU_POWER.name, "power"),
    ):
        cells = fleet.gpus(metric)
        if cells is None:
            continue
        share = metric != metrics.GPU_POWER.name
        values = _running(np.where(cells[:, columns] > 0, cells[:, columns], np.nan))
        if not np.isfinite(values).any() or (share and nan_median(values) >= PEGGED):
            continue
        return Activity(values, name, share)
    return None


def _running(values: FloatGrid) -> FloatGrid:
    level = median(values, 1)
    known = level[np.isfinite(level)]
    if not known.size:
        return values
    runs = np.flatnonzero(level >= EDGE * np.quantile(known, 0.9))
    values = values.copy()
    values[: runs[0]] = np.nan
    values[runs[-1] + 1 :] = np.nan
    return values


def peers_activity_drop(seen: Activity, bin_: int, without: int | None) -> float | None:
    """The peers' activity after a bin over before it; None if it did not fall there.

    Args:
        seen: The job's activity.
        bin_: Where the onset is.
        without: The column that is suspected.
    """
    values = seen.values if without is None else np.delete(seen.values, without, axis=1)
    before, after = _around(median(values, 1), bin_)
    enough = LASTS_BINS // 2
    if np.isfinite(before).sum() < enough or np.isfinite(after).sum() < enough:
        return None
    high, low = nan_median(before), nan_median(after)
    noise = MAD_TO_SIGMA * max(nan_median(np.abs(before - high)), nan_median(np.abs(after - low)))
    return low / high if low <= FELL * high and high - low >= noise else None


def step_time_ratio(seen: Activity, bin_: int, column: int) -> float | None:
    """A culprit's time per step, now over before; None where no share of the time is known.

    The peers do the same work in each step, so that their share of busy time falls as steps grow:
    busy time per step is own share over theirs. The culprit is at least as much slower as the
    steps are, also where it is not busy, as on a slow PCIe link.
    """
    ratio = peers_activity_drop(seen, bin_, column)
    if ratio is None or not seen.share:
        return None
    before, after = (nan_median(part) for part in _around(seen.values[:, column], bin_))
    busy = after / before / ratio
    return float(max(busy, 1.0 / ratio)) if np.isfinite(busy) else 1.0 / ratio


def _around(level: FloatGrid, bin_: int) -> tuple[FloatGrid, FloatGrid]:
    """NEAR_BINS before and after an onset, which is known to a scrape or two."""
    return level[max(bin_ - 2 - NEAR_BINS, 0) : max(bin_ - 2, 0)], level[bin_ + 2 :][:NEAR_BINS]


def change(seen: Activity) -> int | None:
    """The bin at which the job as a whole began to work less; None if it did not."""
    level = median(seen.values, 1)
    known = np.flatnonzero(np.isfinite(level))
    split = best_split(np.log(level[known]))
    if split is None:
        return None
    place = int(known[split])
    return place if peers_activity_drop(seen, place, None) is not None else None


def sole_active_gpu(seen: Activity) -> Contrast | None:
    """The one GPU that works on while its peers work less; None if there is none, or several."""
    values = np.log(seen.values)
    if values.shape[1] < MAJORITY:
        return None  # of two that part, nobody knows which one is normal
    away = smooth(values - median(values, 1)[:, None])
    found: list[Contrast] = []
    for column in range(values.shape[1]):
        known = np.flatnonzero(np.isfinite(away[:, column]))
        series = away[known, column]
        split = best_split(series)
        if split is None:
            continue
        low, high = float(np.median(series[:split])), float(np.median(series[split:]))
        rest = np.abs(series - np.where(np.arange(len(series)) < split, low, high))
        scale = MAD_TO_SIGMA * float(np.median(rest)) + CONTRAST_SPREAD
        place = int(known[split])
        if (
            high - low < max(WORKS_ON, DEVIATES * scale)
            or peers_activity_drop(seen, place, column) is None
        ):
            continue
        found.append(Contrast(column, place, float(np.exp(high - low))))
    return found[0] if len(found) == 1 else None
