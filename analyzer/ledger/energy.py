"""The energy of each rank's GPU: from its energy counter, or its power over time.

Between two samples of the counter the power is what they differ by; between two of power it is
their mean (trapezoid). Where samples are further apart than MOST_GAP, or the counter fell, nobody
reported; nothing is reported before the first and after the last.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid, Run
from lockstep.collector.contract import metrics

MOST_GAP = 300.0
"""Seconds: Prometheus' own lookback."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Course:
    """Energy of one rank's GPU over time.

    Attributes:
        times: (N,) unix seconds, rising.
        joules: (N,) so far.
        reported: (N,) seconds so far of which it was reported.
    """

    times: Floats
    joules: Floats
    reported: Floats

    def between(self, begin: FloatGrid, end: FloatGrid) -> tuple[Floats, Floats]:
        """Joules and seconds that were reported, of stretches."""
        found = [
            np.interp(end, self.times, so_far) - np.interp(begin, self.times, so_far)
            for so_far in (self.joules, self.reported)
        ]
        return found[0], found[1]


def courses(run: Run) -> dict[int, Course]:
    """Rank -> its energy, of the ranks whose GPU reported it; the counter goes before power."""
    samples = run.samples
    if not len(samples) or not {"time", "node", "gpu", "metric", "value"} <= set(samples):
        return {}
    names = (metrics.GPU_ENERGY.name, metrics.GPU_POWER.name)
    mine = samples[samples["metric"].isin(names) & samples["gpu"].notna()]
    by_gpu = dict(list(mine.groupby(["metric", "node", "gpu"], observed=True)))
    found = {}
    for info in run.ranks:
        if info.gpu is None:
            continue
        for name, course in zip(names, (_counted, _integrated), strict=True):
            rows = by_gpu.get((name, info.node, info.gpu))
            made = None if rows is None else course(*_in_order(rows))
            if made is not None:
                found[info.rank] = made
                break
    return found


def _in_order(rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """Times and values, in order, one a moment."""
    ordered = rows.sort_values("time").drop_duplicates("time")
    times = ordered["time"].to_numpy(dtype=float)
    values = ordered["value"].to_numpy(dtype=float)
    known = np.isfinite(times) & np.isfinite(values) & (values >= 0)
    return times[known], values[known]


def _counted(times: Floats, values: Floats) -> Course | None:
    return _course(times, np.diff(values))


def _integrated(times: Floats, values: Floats) -> Course | None:
    return _course(times, np.diff(times) * (values[1:] + values[:-1]) / 2)


def _course(times: Floats, rise: Floats) -> Course | None:
    if len(times) < 2:
        return None
    gaps = np.diff(times)
    there = (gaps <= MOST_GAP) & (rise >= 0)
    joules, told = (np.concatenate([[0.0], np.cumsum(np.where(there, each, 0.0))])
                    for each in (rise, gaps))  # fmt: skip
    return Course(times, joules, told)
