"""What a GPU tells of its state: clock, heat, power, and what it holds itself back by."""

import numpy as np

from analyzer.run import Finding, Grid
from analyzer.slowness.before_after import (
    SM_CLOCK,
    SM_CLOCK_MAX,
    THROTTLED,
    clock_event,
    gpu_words,
    query,
    signal_before_after,
)
from analyzer.symptoms.idle import BUSY, IDLE
from analyzer.symptoms.make import symptom
from analyzer.symptoms.series import Level, level
from analyzer.symptoms.shape import Symptom
from collector.contract import metrics

THERMAL = ("hw_thermal", "sw_thermal")
POWER = ("sw_power_cap", "hw_power_brake")
HARDLY = 0.2
"""Share of THROTTLED below which nothing is throttled."""
LOWER, MUCH_LOWER = 0.98, 0.95
"""Share of the reference clock: NVML tells whole steps of 15 MHz, some 1 % of 1.5 GHz."""
WARMER, HOTTER = 3.0, 5.0
"""Celsius beyond before and beyond the peers."""
AT_CAP = 0.95
"""Power at this share of the limit in force is at the cap."""
LOWERED = 0.97
TEMPERATURE = metrics.GPU_TEMPERATURE.series(sensor="gpu")
DRAWN, LIMIT = metrics.GPU_POWER.series(), metrics.GPU_POWER_LIMIT.series(kind="enforced")
UTILIZATION = metrics.GPU_UTILIZATION.series()
PEERS_DRAW = 2.0
"""Times as much, at least: where all draw little, the work is light."""
IDLER = 0.05
"""Of the time, beyond before and beyond the peers."""


def thermal_throttling(grid: Grid, finding: Finding) -> Symptom | None:
    """Clock-event seconds for heat."""
    return _throttling(grid, finding, THERMAL, "was in thermal slowdown")


def power_throttling(grid: Grid, finding: Finding) -> Symptom | None:
    """Clock-event seconds for power."""
    return _throttling(grid, finding, POWER, "was held at its power cap")


def _throttling(
    grid: Grid, finding: Finding, reasons: tuple[str, ...], words: str
) -> Symptom | None:
    told = [(reason, grid.signals.get(clock_event(reason))) for reason in reasons]
    found = [
        (reason, cells, known)
        for reason, cells in told
        if cells is not None and (known := level(grid, finding, cells)) is not None
    ]
    if not found:
        return None
    reason, cells, known = max(found, key=lambda one: one[2].during - one[2].other)
    risen = known.during - known.other
    before = "" if np.isnan(known.before) else f" (before: {known.before:.0%})"
    text = f"{gpu_words(grid, finding.rank)} {words} {known.during:.0%} of the time{before}"
    return symptom(grid, finding, cells, known, text=text,
                   query=query(grid, finding, clock_event(reason)),
                   seen=risen >= HARDLY * THROTTLED, grave=risen >= THROTTLED)  # fmt: skip


def clock(grid: Grid, finding: Finding) -> Symptom | None:
    """The SM clock below what it was, or, from the start, below its maximum."""
    cells = grid.signals.get(SM_CLOCK)
    known = level(grid, finding, cells)
    if cells is None or known is None:
        return None
    reference = known.before
    if np.isnan(reference):
        top = signal_before_after(grid, finding, SM_CLOCK_MAX)
        reference = top.during if top is not None else known.peers
    if np.isnan(reference):
        return None
    text = f"SM clock {known.during / 1e6:.0f} MHz against {reference / 1e6:.0f} MHz before"
    return symptom(grid, finding, cells, Level(reference, known.during, known.peers), text=text,
                   query=query(grid, finding, SM_CLOCK),
                   seen=known.during <= LOWER * reference,
                   grave=known.during <= MUCH_LOWER * reference)  # fmt: skip


def temperature(grid: Grid, finding: Finding) -> Symptom | None:
    """Hotter than before and than the peers."""
    told = signal_before_after(grid, finding, TEMPERATURE)
    if told is None or np.isnan(np.fmax(told.before, told.peers)):
        return None
    text = f"temperature {told.during:.0f} °C"
    if not np.isnan(told.peers):
        text += f", peers {told.peers:.0f} °C"
    return Symptom(told.risen >= WARMER, text, query(grid, finding, TEMPERATURE),
                   grave=told.risen >= HOTTER)  # fmt: skip


def power_cap(grid: Grid, finding: Finding) -> Symptom | None:
    """Power at its limit; grave where the limit is lower than before, or than the peers'."""
    drawn = signal_before_after(grid, finding, DRAWN)
    limit = signal_before_after(grid, finding, LIMIT)
    if drawn is None or limit is None:
        return None
    usual = np.fmax(limit.before, limit.peers)
    lowered = bool(limit.during < LOWERED * usual)
    text = f"power {drawn.during:.0f} W at a limit of {limit.during:.0f} W"
    text += f", lowered from {usual:.0f} W" if lowered else ""
    return Symptom(drawn.during >= AT_CAP * limit.during, text, query(grid, finding, DRAWN),
                   grave=lowered)  # fmt: skip


def idle(grid: Grid, finding: Finding) -> Symptom | None:
    """Kernels run less of the time than before and than at the peers."""
    cells = grid.signals.get(UTILIZATION)
    known = level(grid, finding, cells)
    if cells is None or known is None:
        return None
    usual = float(np.fmin(known.before, known.peers))
    if np.isnan(usual):
        return None
    less = usual - known.during
    text = f"{gpu_words(grid, finding.rank)} has kernels running {known.during:.0%} of the time"
    return Symptom(less >= IDLER, f"{text}, {usual:.0%} before", query(grid, finding, UTILIZATION),
                   grave=less >= 2 * IDLER)  # fmt: skip


def contradiction(grid: Grid, finding: Finding) -> Symptom | None:
    """Busy, at the power of one that is idle; of which one of the two is wrong.

    A GPU that has kernels running most of the time does not draw idle power.
    """
    busy, drawn, limit = (
        signal_before_after(grid, finding, key) for key in (UTILIZATION, DRAWN, LIMIT)
    )
    if busy is None or drawn is None or limit is None:
        return None
    at_rest = drawn.during <= IDLE * limit.during and not drawn.during * PEERS_DRAW > drawn.peers
    if busy.during < BUSY or not at_rest:
        return Symptom(False, "", "")
    text = (
        f"{gpu_words(grid, finding.rank)} tells {busy.during:.0%} utilisation and"
        f" {drawn.during:.0f} W of {limit.during:.0f} W, as if idle: one of the two is wrong"
    )
    return Symptom(True, text, query(grid, finding, UTILIZATION))
