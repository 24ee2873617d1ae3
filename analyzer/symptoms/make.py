"""A series that moved -> a Symptom: how far in its own noise, since when, and who follows it.

One measure for all numbers that are told: how far a series is beyond before, and beyond what
happened to its peers as well, in units of what such a difference is off by. What its sensor cannot
tell apart is no movement, however quiet the series was.
"""

from typing import NamedTuple

import numpy as np

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.symptoms.series import Level, dose_response, is_near, onset_delay, tolerance
from analyzer.symptoms.shape import Symptom

MILD, STRONG = 3.0, 6.0
"""Robust deviations from which a series has moved, and beyond any doubt: Shewhart's limits (1931;
chance passes three sigma once in 741 looks, one-sided), and twice them."""


class Sensor(NamedTuple):
    """How a series is read.

    Attributes:
        resolution: The smallest difference that it tells, in its own unit; what is quieter than
            this is as noisy.
        healthy: What it is where neither before nor the peers are known; NaN = nobody can say.
        lower: Whether trouble is a fall.
        events: Whether it counts events: then chance alone moves its rate (Poisson).
    """

    resolution: float
    healthy: float = float("nan")
    lower: bool = False
    events: bool = False


SECONDS = Sensor(0.005, healthy=0.0)
"""A second, of what counts time: the kernel hands out processors by slices of 5 ms
(`sched_cfs_bandwidth_slice_us`) and looks every 4 ms (`CONFIG_HZ` 250)."""
EVENTS = Sensor(0.0, healthy=0.0, events=True)
"""A second; a healthy part counts next to none."""
WHOLE = Sensor(0.1, lower=True)
"""Lanes, generations, links: there are none between, so what moves their mean is the share of the
windows that lack one. Three of ten have moved, six of ten are most."""


def deviations(told: Level, sensor: Sensor) -> float:
    """How far a level is beyond what is usual, in units of its noise; NaN = nobody knows.

    `(during - usual) / max(noise, resolution)`; of events the noise is at least
    `sqrt(max(usual * seconds, 1)) / seconds`, one event or the Poisson deviation of what is usual.
    """
    usual = told.usual(sensor.healthy, lower=sensor.lower)
    moved = usual - told.during if sensor.lower else told.during - usual
    noise = max(told.noise, sensor.resolution)
    if sensor.events and told.seconds > 0:
        noise = max(noise, float(np.sqrt(max(usual * told.seconds, 1.0))) / told.seconds)
    return moved / noise if noise > 0 else float(np.inf * np.sign(moved)) if moved else 0.0


def symptom(
    grid: Grid,
    finding: Finding,
    cells: FloatGrid,
    told: Level,
    sensor: Sensor,
    *,
    text: str,
    query: str,
    silent: str | None = None,
    so: bool = True,
    mild: bool = False,
) -> Symptom | None:
    """The symptom that a series shows; None where nobody knows what is usual.

    Args:
        grid: The run's windows.
        finding: Whom it is about.
        cells: (W, R) the series.
        told: How high it is.
        sensor: How it is read.
        text: What is seen.
        query: The PromQL that shows it.
        silent: What is said where nothing is seen; None = the same.
        so: Whether it is trouble at all, where moving alone is none.
        mild: Whether the most it can be is mild.
    """
    far = deviations(told, sensor)
    if np.isnan(far):
        return None
    if not so or far < MILD:
        return Symptom(False, text if silent is None else silent, query)
    usual = told.usual(sensor.healthy, lower=sensor.lower)
    late = onset_delay(grid, finding, cells, usual, told.during)
    within = None if np.isnan(late) else abs(late) <= tolerance(grid)
    rho = dose_response(grid, finding, cells)
    # A link that loses width is worse the lower it is.
    rho = -rho if sensor.lower else rho
    grave = far >= STRONG and not mild
    return Symptom(True, text, query, late, within, is_near(grid, finding, late), rho, grave)
