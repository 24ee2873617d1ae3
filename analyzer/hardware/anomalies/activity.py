"""How much the GPUs of a job work, as windows of a run: an observation of own time without steps.

In a synchronous job every GPU does its part of each step, and all wait for the slowest. So how much
the middle GPU works in a scrape says how many steps that held, and how much another one works
beside it what a step takes of its own time: that grows at the one that became slow, and nothing but
the steps does at the others (docs/method/anomalies.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lockstep.analyzer.align.telemetry import telemetry
from lockstep.analyzer.causes.symptoms.gpu_state import IDLE
from lockstep.analyzer.causes.symptoms.series import PERCENT
from lockstep.analyzer.hardware.anomalies.panel import Panel
from lockstep.analyzer.shapes.run import FloatGrid, Grid, RankInfo
from lockstep.analyzer.stats.robust_stats import median, median_of
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Phase

PEGGED = 1.0 - 2 * PERCENT
"""Where GPUs spin while they wait, as NCCL's kernels do, utilisation says 1 whatever they do: from
where its sensor can hardly tell it from 1."""


@dataclass(frozen=True, slots=True)
class Activity:
    """How much each GPU of a job works.

    Attributes:
        values: (T, J) activity, above 0; NaN = not known, or the job was not running.
        name: What it is measured by.
        share: Whether it is a share of the time, so that steps take longer by its inverse.
    """

    values: FloatGrid
    name: str
    share: bool


def activity(panel: Panel, columns: list[int]) -> Activity | None:
    """The most telling series of activity that the job's GPUs have; None without one."""
    for metric, name in (
        (metrics.GPU_SM_ACTIVE.name, "SM activity"),
        (metrics.GPU_UTILIZATION.name, "utilisation"),
        (metrics.GPU_POWER.name, "power"),
    ):
        cells = panel.cells(metric)
        if cells is None:
            continue
        share = metric != metrics.GPU_POWER.name
        values = _running(np.where(cells[:, columns] > 0, cells[:, columns], np.nan))
        if not np.isfinite(values).any() or (share and median_of(values) >= PEGGED):
            continue
        return Activity(values, name, share)
    return None


def _running(values: FloatGrid) -> FloatGrid:
    """Without the scrapes before the job began and after it ended, in which its GPUs rest."""
    level = median(values, 1)
    runs = np.flatnonzero(level >= IDLE * np.nanmax(level, initial=0.0))
    if not runs.size:
        return values
    values = values.copy()
    values[: runs[0]] = np.nan
    values[runs[-1] + 1 :] = np.nan
    return values


def as_windows(
    seen: Activity, panel: Panel, ranks: Sequence[RankInfo], samples: pd.DataFrame
) -> Grid:
    """The job as a run of one window a scrape, in each of which it does one usual step's work.

    Args:
        seen: How much its GPUs work.
        panel: What was scraped.
        ranks: Who is on each of them, J in all.
        samples: contract.archive.SAMPLES, for what else is known of them.
    """
    level = median(seen.values, 1)
    known = np.flatnonzero(np.isfinite(level))
    start = panel.times[known]
    end = start + panel.seconds
    own = seen.values[known] / level[known, None]
    wall = np.broadcast_to(median_of(level) / level[known, None], own.shape)
    unknown = np.full(own.shape, np.nan)
    # What a GPU is busy with is computing; what else there is in a step nobody tells.
    phases = {str(phase): unknown for phase in Phase} | {str(Phase.FORWARD): own}
    times = {"own": own, "wall": wall, "collective": unknown, "cpu": unknown, "gc": unknown}
    heard = telemetry(samples, tuple(ranks), (start + end) / 2)
    number = np.arange(len(known))
    return Grid(
        run="", ranks=tuple(ranks), from_step=number, to_step=number + 1, start=start, end=end,
        time=phases | times, signals=heard.signals, last=heard.last, last_time=heard.last_time,
        scraped_until=heard.scraped_until, masked=np.zeros(len(known), dtype=bool), coverage=1.0,
        scrape_seconds=heard.scrape_seconds,
    )  # fmt: skip
