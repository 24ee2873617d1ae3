"""Series of a metric over all its labels, and how one moves with a finding."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.before_after import column_of
from collector.contract.metrics import METRICS

SCRAPES = 2.0
"""Evidence is aligned to the onset within so many scrapes (docs/method/causes.md)."""
STEPS = 6.0
"""And so many windows, by which a finding's onset can be off."""
NEAR_SECONDS, NEAR_SHARE = 900.0, 0.5
"""Counters may rise minutes before or after what they tell of costs time; but what is half of the
slow time away is at another time."""
SCRAPE_SECONDS = 15.0
"""Where nobody told how often a node was scraped: Prometheus' usual interval."""


@dataclass(frozen=True, slots=True)
class Level:
    """Means over windows, in the series' unit (counters: per second); NaN = did not answer.

    Means, not medians: an error every few seconds is in few windows.
    """

    before: float
    during: float
    peers: float

    @property
    def other(self) -> float:
        """What is normal: before, or the peers where they are higher or before is not known."""
        known = [value for value in (self.before, self.peers) if np.isfinite(value)]
        return max(known) if known else 0.0


def total(grid: Grid, metric: str, **labels: str) -> FloatGrid | None:
    """(W, R) sum over the metric's series that have all `labels`; None if none answered.

    Raises:
        ValueError: The metric has no label of that name.
    """
    selectors = METRICS[metric].selector(**labels)
    keys = [
        key for key in grid.signals
        if key.partition("{")[0] == metric and all(each in key for each in selectors)
    ]  # fmt: skip
    if not keys:
        return None
    summed = np.zeros((len(grid.start), len(grid.ranks)))
    there = np.zeros(summed.shape, dtype=bool)
    for key in keys:
        cells = grid.signals[key]
        there |= np.isfinite(cells)
        summed += np.nan_to_num(cells)
    return np.where(there, summed, np.nan)


def level(grid: Grid, finding: Finding, cells: FloatGrid | None) -> Level | None:
    """How high a series is; None if the finding's rank did not answer during it."""
    column = column_of(grid, finding.rank)
    if cells is None or column is None:
        return None
    during, before = spans(grid, finding)
    if not np.isfinite(cells[during, column]).any():
        return None
    node = finding.details.get("node")
    peers = [
        c
        for c, info in enumerate(grid.ranks)
        if c != column and (node is None or info.node != node)
    ]
    return Level(
        _mean(cells[before, column]),
        _mean(cells[during, column]),
        _mean(cells[np.ix_(during, np.array(peers, dtype=int))]),
    )


def spans(grid: Grid, finding: Finding) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(W,) unmasked windows of the finding, and those before it (after it, if none are)."""
    windows = np.arange(len(grid.start))
    stop = len(windows) if finding.last is None else finding.last
    during = ~grid.masked & (windows >= finding.first) & (windows < stop)
    before = ~grid.masked & (windows < finding.first)
    return during, before if before.any() else ~grid.masked & (windows >= stop)


def onset_delay(grid: Grid, finding: Finding, cells: FloatGrid, normal: float, now: float) -> float:
    """Seconds from the finding's onset to the first window beyond the middle of two levels.

    NaN where the finding has no onset in the run, or the series never crosses.
    """
    column = column_of(grid, finding.rank)
    if column is None or not 0 < finding.first < len(grid.start) or now == normal:
        return float("nan")
    beyond = (cells[:, column] - (normal + now) / 2) * np.sign(now - normal) > 0
    hits = np.flatnonzero(beyond & ~grid.masked)
    return float(grid.start[hits[0]] - grid.start[finding.first]) if hits.size else float("nan")


def tolerance(grid: Grid) -> float:
    """Seconds between a finding's onset and what began with it."""
    scrape = grid.scrape_seconds if np.isfinite(grid.scrape_seconds) else SCRAPE_SECONDS
    window = float(np.median(grid.end - grid.start)) if len(grid.start) else 0.0
    return SCRAPES * scrape + STEPS * window


def is_near(grid: Grid, finding: Finding, late: float) -> bool:
    """Whether so many seconds from the onset are not far for this finding; NaN is not."""
    if not 0 <= finding.first < len(grid.start):
        return False
    stop = len(grid.start) if finding.last is None else finding.last
    length = float(grid.end[max(stop, finding.first + 1) - 1] - grid.start[finding.first])
    return abs(late) <= min(NEAR_SECONDS, NEAR_SHARE * length)


def dose_response(grid: Grid, finding: Finding, cells: FloatGrid) -> float:
    """Spearman's rho over windows of own time, over the peers', with a series: dose and response.

    NaN where either stands still or fewer than eight windows know both.
    """
    column = column_of(grid, finding.rank)
    if column is None or len(grid.ranks) < 2:
        return float("nan")
    peers = [c for c in range(len(grid.ranks)) if c != column]
    own = grid.time["own"]
    known = ~grid.masked & np.isfinite(own[:, column]) & np.isfinite(own[:, peers]).any(axis=1)
    known &= np.isfinite(cells[:, column])
    if known.sum() < 8:
        return float("nan")
    ratio = own[known, column] / np.nanmedian(own[np.ix_(known, np.array(peers))], axis=1)
    ranks = [pd.Series(series).rank() for series in (ratio, cells[known, column])]
    if any(np.ptp(each) == 0 for each in ranks):
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _mean(cells: FloatGrid) -> float:
    there = cells[np.isfinite(cells)]
    return float(there.mean()) if there.size else float("nan")
