"""What a GPU tells of its state: clock, heat, power, and what it holds itself back by."""

from dataclasses import replace

import numpy as np

from analyzer.run import Finding, Grid
from analyzer.slowness.before_after import (
    SM_CLOCK,
    SM_CLOCK_MAX,
    clock_event,
    gpu_words,
    query,
)
from analyzer.symptoms.idle import BUSY, IDLE
from analyzer.symptoms.make import SECONDS, STRONG, Sensor, deviations, symptom
from analyzer.symptoms.series import level
from analyzer.symptoms.shape import Symptom
from collector.contract import metrics

THERMAL = ("hw_thermal", "sw_thermal")
POWER = ("sw_power_cap", "hw_power_brake")
CELSIUS = Sensor(1.0)
"""NVML tells whole degrees."""
CLOCK = Sensor(15e6, lower=True)
"""NVIDIA's clocks move in steps of 15 MHz."""
BUSY_SHARE = Sensor(0.01, lower=True)
"""NVML tells whole percents of the time."""
METER = 0.05
"""NVML tells power within 5 % (nvidia-smi(1), "Power Draw"): this near to the limit is at it."""
HEADROOM = Sensor(0.01, lower=True)
"""Share of the limit that is not drawn; the meter's own error is the same all along."""
LIMITED = Sensor(1.0, lower=True)
"""Watts: limits are set in whole ones."""
TEMPERATURE = metrics.GPU_TEMPERATURE.series(sensor="gpu")
DRAWN, LIMIT = metrics.GPU_POWER.series(), metrics.GPU_POWER_LIMIT.series(kind="enforced")
UTILIZATION = metrics.GPU_UTILIZATION.series()
PEERS_DRAW = 2.0
"""Times as much, at least: where all draw little, the work is light."""


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
    reason, cells, known = max(found, key=lambda one: deviations(one[2], SECONDS))
    before = "" if np.isnan(known.before) else f" (before: {known.before:.0%})"
    text = f"{gpu_words(grid, finding.rank)} {words} {known.during:.0%} of the time{before}"
    return symptom(grid, finding, cells, known, SECONDS, text=text,
                   query=query(grid, finding, clock_event(reason)))  # fmt: skip


def clock(grid: Grid, finding: Finding) -> Symptom | None:
    """The SM clock below what it was and what the peers' is; alone and from the start, its top."""
    cells = grid.signals.get(SM_CLOCK)
    known = level(grid, finding, cells)
    if cells is None or known is None:
        return None
    top = level(grid, finding, grid.signals.get(SM_CLOCK_MAX))
    sensor = CLOCK if top is None else CLOCK._replace(healthy=top.during)
    usual = known.usual(sensor.healthy, lower=True)
    text = f"SM clock {known.during / 1e6:.0f} MHz against {usual / 1e6:.0f} MHz before"
    return symptom(grid, finding, cells, known, sensor, text=text,
                   query=query(grid, finding, SM_CLOCK))  # fmt: skip


def temperature(grid: Grid, finding: Finding) -> Symptom | None:
    """Hotter than before and than the peers."""
    cells = grid.signals.get(TEMPERATURE)
    known = level(grid, finding, cells)
    if cells is None or known is None:
        return None
    text = f"temperature {known.during:.0f} °C"
    if not np.isnan(known.peers):
        text += f", peers {known.peers:.0f} °C"
    return symptom(grid, finding, cells, known, CELSIUS, text=text,
                   query=query(grid, finding, TEMPERATURE))  # fmt: skip


def power_cap(grid: Grid, finding: Finding) -> Symptom | None:
    """Power at its limit, as it was not before; mild where the limit itself was not lowered."""
    drawn, limits = grid.signals.get(DRAWN), grid.signals.get(LIMIT)
    watts, limit = level(grid, finding, drawn), level(grid, finding, limits)
    if drawn is None or limits is None or watts is None or limit is None:
        return None
    headroom = 1.0 - drawn / np.where(limits > 0, limits, np.nan)
    known = level(grid, finding, headroom)
    if known is None:
        return None
    lowered = deviations(limit, LIMITED) >= STRONG
    usual = limit.usual(lower=True)
    text = f"power {watts.during:.0f} W at a limit of {limit.during:.0f} W"
    text += f", lowered from {usual:.0f} W" if lowered else ""
    return symptom(grid, finding, headroom, known, HEADROOM, text=text,
                   query=query(grid, finding, DRAWN), so=known.during <= METER,
                   mild=not lowered)  # fmt: skip


def idle(grid: Grid, finding: Finding) -> Symptom | None:
    """Kernels run less of the time than before and than at the peers."""
    cells = grid.signals.get(UTILIZATION)
    known = level(grid, finding, cells)
    if cells is None or known is None:
        return None
    text = f"{gpu_words(grid, finding.rank)} has kernels running {known.during:.0%} of the time"
    text += f", {known.usual(lower=True):.0%} before"
    return symptom(grid, finding, cells, known, BUSY_SHARE, text=text,
                   query=query(grid, finding, UTILIZATION))  # fmt: skip


def contradiction(grid: Grid, finding: Finding) -> Symptom | None:
    """The GPU's own numbers exclude each other: one is wrong, and nobody knows which.

    Busy at idle power: a GPU that has kernels running most of the time does not draw idle power.
    Throttled at its highest clock: what holds a GPU back does so by lowering its clock.
    None where neither pair is told.
    """
    told = [each for each in (_busy_at_rest(grid, finding), _held_at_top(grid, finding)) if each]
    return next((each for each in told if each.seen), told[0] if told else None)


def _busy_at_rest(grid: Grid, finding: Finding) -> Symptom | None:
    busy, drawn, limit = (
        level(grid, finding, grid.signals.get(key)) for key in (UTILIZATION, DRAWN, LIMIT)
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


def _held_at_top(grid: Grid, finding: Finding) -> Symptom | None:
    """Throttled beyond any doubt, and the clock less than half as much lower as the rank is slow.

    Of a GPU at `1 / slowdown` of its clock the rank is at most so slow. None where so little lower
    a clock would not be seen.
    """
    held = [
        each
        for each in (thermal_throttling(grid, finding), power_throttling(grid, finding))
        if each is not None
    ]
    known = level(grid, finding, grid.signals.get(SM_CLOCK))
    if not held or known is None:
        return None
    usual = known.usual(lower=True)
    lower = usual * (1.0 - 1.0 / finding.slowdown)
    if not deviations(replace(known, during=usual - lower), CLOCK) >= STRONG:
        return None
    found = next((each for each in held if each.seen and each.grave), None)
    if found is None or usual - known.during >= lower / 2:
        return Symptom(False, "", "")
    text = (
        f"{found.text}, at an SM clock of {known.during / 1e6:.0f} MHz against"
        f" {usual / 1e6:.0f} MHz before: one of the two is wrong"
    )
    return Symptom(True, text, found.query)
