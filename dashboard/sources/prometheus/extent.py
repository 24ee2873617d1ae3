"""From when until when a Prometheus knows anything, without reading all of it."""

import numpy as np

from lockstep.analyzer.read.prometheus.discovery import LOOK_BACK
from lockstep.analyzer.read.prometheus.promql import lasting, series
from lockstep.analyzer.read.prometheus.questions import (
    COLLECTORS,
    NEWEST_SCRAPE,
    collectors_present,
)
from lockstep.analyzer.shapes.labels import Target
from lockstep.collector.contract.metrics import BUILD_INFO
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.grid import UNKNOWN_SCRAPE, Grid
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.trouble import Kind, TroubleError

NOW_SECONDS = 300.0
"""How far back an instant query looks (Prometheus: `--query.lookback-delta`)."""
COARSE = 3600.0
"""Between two looks over LOOK_BACK; what began last is looked at finely."""


def scrape_seconds(asking: Asking, target: Target, at: float) -> float:
    """Between two scrapes of a target: the median of the last five minutes."""
    page = series(BUILD_INFO.name, job=target[0], instance=target[1])
    times = asking.scrapes(f"{page}[{lasting(NOW_SECONDS)}]", at)
    if len(times) < 2:
        return UNKNOWN_SCRAPE
    seconds = float(np.median(np.diff(times)))
    return round(seconds, 1) if seconds < 5 else float(round(seconds))


def latest(asking: Asking, now: float) -> float | None:
    """When a collector told last; None = none did in LOOK_BACK."""
    rows = asking.instant(NEWEST_SCRAPE, now)
    if rows:
        return rows[0][1]
    before = _there(asking, now - LOOK_BACK, now, COARSE)
    if before is None:
        return None
    fine = _there(asking, before.end - COARSE, before.end, 10.0)
    rows = asking.instant(NEWEST_SCRAPE, fine.end if fine else before.end)
    return rows[0][1] if rows else before.end


def extent(asking: Asking, now: float) -> Span:
    """Both ends of what a Prometheus knows, in the last LOOK_BACK.

    Raises:
        TroubleError: It knows nothing of Lockstep.
    """
    last = latest(asking, now)
    if last is None:
        raise TroubleError(
            Kind.EMPTY, f"{asking.url} has nothing of Lockstep's collectors.",
            "Let it scrape them: deploy/standalone/prometheus.yml shows how.",
        )  # fmt: skip
    # One look an hour reads five minutes of each: cheap. What is in between is looked at once.
    grid = Grid(last - LOOK_BACK, last, COARSE)
    counts = asking.over(COLLECTORS, grid)
    told = np.flatnonzero(np.isfinite(counts[0].values)) if counts else np.empty(0, dtype=int)
    first = float(grid.times[told[0]]) if told.size else last
    fine = _there(asking, first - COARSE, first, 10.0)
    return Span(min(first, fine.start if fine else first), last)


def _there(asking: Asking, start: float, end: float, part: float) -> Span | None:
    """The first and the last part of a time in which a collector told anything."""
    grid = Grid(start + part, end + part, part)
    found = asking.over(collectors_present(part), grid)
    told = np.flatnonzero(np.isfinite(found[0].values)) if found else np.empty(0, dtype=int)
    if not told.size:
        return None
    return Span(float(grid.times[told[0]]) - part, float(grid.times[told[-1]]))
