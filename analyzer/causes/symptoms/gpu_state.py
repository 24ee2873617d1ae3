"""The state of a GPU: clock, heat, power, throttling, and readings that contradict each other."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.causes.symptoms.series import (
    MILD,
    PERCENT,
    STRONG,
    Level,
    Sensor,
    Symptom,
    deviations,
    level,
    of_same_model,
    of_signal,
    of_time,
    scrape_seconds,
    series_of,
    spans,
    symptom,
)
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.shapes.wording import megahertz
from lockstep.analyzer.stats.before_after import (
    SM_CLOCK,
    SM_CLOCK_MAX,
    clock_event,
    column_of,
    gpu_words,
    query,
)
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import Series


class Throttled(NamedTuple):
    """What a GPU is held back by: the reasons that count it, and words."""

    reasons: tuple[str, ...]
    words: str


HEATED = Throttled(("hw_thermal", "sw_thermal"), "was in thermal slowdown")
HELD = Throttled(("sw_power_cap", "hw_power_brake"), "was held at its power cap")
CELSIUS = Sensor(1.0)
"""NVML tells whole degrees (nvmlDeviceGetTemperature)."""
CLOCK = Sensor(15e6, lower=True)
"""NVIDIA's clocks move in steps of 15 MHz (`nvidia-smi -q -d SUPPORTED_CLOCKS`)."""
KERNELS = Sensor(PERCENT, lower=True)
"""Share of the time in which a kernel runs."""
METER = 0.05
"""NVML tells power within 5 % (nvidia-smi(1), "Power Draw"): this near to the limit is at it."""
HEADROOM = Sensor(PERCENT, lower=True, bad=METER)
"""Share of the limit that is not drawn; the meter's own error is the same all along."""
LIMITED = Sensor(1.0, lower=True)
"""Watts: limits are set in whole ones."""
WATTS = Sensor(1.0, lower=True)
"""What is drawn: less of it is what a limit does."""
TEMPERATURE = metrics.GPU_TEMPERATURE.series(sensor="gpu")
DRAWN, LIMIT = metrics.GPU_POWER.series(), metrics.GPU_POWER_LIMIT.series(kind="enforced")
UTILIZATION = metrics.GPU_UTILIZATION.series()


def thermal_throttling(grid: Grid, finding: Finding) -> Symptom | None:
    """Clock-event seconds for heat; where nobody tells them, none of a GPU that is too cool."""
    clearest = _clearest_reason(grid, finding, HEATED)
    return _too_cool(grid, finding) if clearest is None else clearest[1]


def _too_cool(grid: Grid, finding: Finding) -> Symptom | None:
    """No throttling for heat: cooler than its peers and no hotter than it was. None otherwise.

    What heat holds back stays at the temperature that its driver allows, which those that nothing
    holds back are below. Any sensor may be the hot one: all that report must be cool.
    """
    keys = series_of(grid, metrics.GPU_TEMPERATURE.name)
    levels = {key: level(grid, finding, of_same_model(grid, finding, key)) for key in keys}
    known = {key: mean for key, mean in levels.items() if mean is not None}
    if TEMPERATURE not in known or not all(_cool(mean) for mean in known.values()):
        return None
    mine = known[TEMPERATURE]
    text = f"at {mine.during:.0f} °C it is cooler than its peers ({mine.peers:.0f} °C)"
    return Symptom(False, text, query(grid, finding, TEMPERATURE))


def _cool(reading: Level) -> bool:
    cooler = reading.peers - reading.during >= CELSIUS.resolution
    return cooler and not reading.during > reading.before


def power_throttling(grid: Grid, finding: Finding) -> Symptom | None:
    """Clock-event seconds for power."""
    clearest = _clearest_reason(grid, finding, HELD)
    return None if clearest is None else clearest[1]


def _clearest_reason(grid: Grid, finding: Finding, kind: Throttled) -> tuple[str, Symptom] | None:
    """Of the reasons for one kind of throttling the one that moved the furthest."""
    text = f"{gpu_words(grid, finding.rank)} {kind.words}"
    symptoms = [
        (reason, symptom)
        for reason in kind.reasons
        if (symptom := of_time(grid, finding, clock_event(reason), text))
    ]
    return max(symptoms, key=lambda pair: pair[1].far, default=None)


def clock(grid: Grid, finding: Finding) -> Symptom | None:
    """The SM clock below what it was and what the peers' is; alone and from the start, its top."""
    sensor = _clock_sensor(grid, finding)

    def words(reading: Level) -> str:
        now, usual = megahertz(reading.during), megahertz(reading.usual(sensor))
        whose = reading.whose(sensor)
        than = f", as {whose}" if now == usual else f" against {usual} {whose}"
        return f"SM clock {now}{than}"

    return of_signal(grid, finding, SM_CLOCK, sensor, words)


def _clock_sensor(grid: Grid, finding: Finding) -> Sensor:
    top = level(grid, finding, grid.signals.get(SM_CLOCK_MAX))
    return CLOCK if top is None else CLOCK._replace(healthy=top.during)


def temperature(grid: Grid, finding: Finding) -> Symptom | None:
    """Hotter than before and than the peers."""

    def words(reading: Level) -> str:
        peers = "" if np.isnan(reading.peers) else f", peers {reading.peers:.0f} °C"
        return f"temperature {reading.during:.0f} °C{peers}"

    return of_signal(grid, finding, TEMPERATURE, CELSIUS, words)


def power_cap(grid: Grid, finding: Finding) -> Symptom | None:
    """Power at its limit, as it was not before; mild where the limit was not lowered for it.

    A limit is lowered that is below what it was, or below that of the peers on the same model of
    GPU. Where it always was below theirs, the peers show what would be drawn without.
    """
    drawn, limits = (of_same_model(grid, finding, key) for key in (DRAWN, LIMIT))
    limit = level(grid, finding, limits)
    if drawn is None or limits is None or limit is None:
        return None
    lowered = deviations(limit, LIMITED) >= STRONG
    always = not lowered and deviations(replace(limit, before=np.nan), LIMITED) >= STRONG
    span = replace(finding, first=0) if always else finding
    watts, limit = level(grid, span, drawn), level(grid, span, limits) or limit
    if watts is None:
        return None
    text = f"power {watts.during:.0f} W at a limit of {limit.during:.0f} W"
    text += f", lowered from {limit.usual(LIMITED):.0f} W" if lowered else ""
    text += f", peers {limit.peers:.0f} W" if always else ""
    headroom = 1.0 - drawn / np.where(limits > 0, limits, np.nan)
    sensor = HEADROOM
    if (lowered or always) and watts.usual(WATTS) >= (1.0 - METER) * limit.during:
        # A step has parts that draw little: its mean stays below a limit that holds back the rest.
        sensor = HEADROOM._replace(bad=np.nan)
    return symptom(grid, span, headroom, sensor, lambda _: text,
                   query(grid, finding, DRAWN), mild=not lowered)  # fmt: skip


def idle(grid: Grid, finding: Finding) -> Symptom | None:
    """Kernels run less of the time than before and than at the peers."""
    gpu = gpu_words(grid, finding.rank)

    def words(reading: Level) -> str:
        usual = f"{reading.usual(KERNELS):.0%} {reading.whose(KERNELS)}"
        return f"{gpu} has kernels running {reading.during:.0%} of the time, {usual}"

    return of_signal(grid, finding, UTILIZATION, KERNELS, words)


def contradiction(grid: Grid, finding: Finding) -> Symptom | None:
    """The GPU's own numbers exclude each other: one is wrong, and it is not known which.

    Busy at idle power: a GPU that has kernels running most of the time does not draw idle power.
    Throttled at its highest clock: what holds a GPU back does so by lowering its clock.
    None where neither pair is known (the second says nothing where nothing throttles the GPU), or
    so little lower a clock would not be seen.
    """
    busy, held = _busy_at_rest(grid, finding), _held(grid, finding)
    if held is None or (busy is not None and busy.seen):
        return busy
    reason, symptom = held
    return _held_at_top(grid, finding, reason, symptom)


def _busy_at_rest(grid: Grid, finding: Finding) -> Symptom | None:
    busy, drawn, limit = (
        level(grid, finding, grid.signals.get(key)) for key in (UTILIZATION, DRAWN, LIMIT)
    )
    if busy is None or drawn is None or limit is None:
        return None
    if not idle_at_work(busy.during, drawn.during, limit.during, drawn.peers):
        return Symptom(False, "", "")
    text = (
        f"{gpu_words(grid, finding.rank)} reports {busy.during:.0%} utilisation and"
        f" {drawn.during:.0f} W of {limit.during:.0f} W, as if idle: one of the two is wrong"
    )
    return Symptom(True, text, query(grid, finding, UTILIZATION))


def _held(grid: Grid, finding: Finding) -> tuple[str, Symptom] | None:
    """What throttles it beyond any doubt, and the reason that counts it."""
    held = (_clearest_reason(grid, finding, kind) for kind in (HEATED, HELD))
    return next((pair for pair in held if pair and pair[1].seen and pair[1].grave), None)


def _held_at_top(grid: Grid, finding: Finding, reason: str, held: Symptom) -> Symptom | None:
    """The clock, while it is held back, less than half as much lower as the rank is slow.

    Of a GPU at `1 / slowdown` of its clock the rank is at most so slow. A clock is read in an
    instant: of what holds it back in bursts, so many scrapes meet one as chance has it.
    """
    read = _clock_while(grid, finding, clock_event(reason))
    if read is None:
        return None
    known, chance = read
    sensor = _clock_sensor(grid, finding)
    usual = known.usual(sensor)
    lower = usual * (1.0 - 1.0 / finding.slowdown)
    fallen = usual - known.during
    if fallen + MILD * chance >= lower / 2 and deviations(known, sensor) >= MILD:
        return Symptom(False, "", "")
    if not deviations(replace(known, during=usual - lower), sensor) >= STRONG:
        return None
    text = (
        f"{held.text}, at an SM clock of {megahertz(known.during)} against"
        f" {megahertz(usual)} {known.whose(sensor)}: one of the two is wrong"
    )
    return Symptom(True, text, held.query)


def _clock_while(grid: Grid, finding: Finding, key: Series) -> tuple[Level, float] | None:
    """The SM clock in those windows of a finding in which its rank's seconds of `key` rose.

    Returns:
        The level, and its standard error in Hz by the spread of what was read: windows between two
        scrapes share a reading.
    """
    clocks, seconds = grid.signals.get(SM_CLOCK), grid.signals.get(key)
    column = column_of(grid, finding.rank)
    if clocks is None or seconds is None or column is None:
        return None
    during, _ = spans(grid, finding)
    read = clocks.copy()
    read[during & ~(seconds[:, column] > 0), column] = np.nan
    known = level(grid, finding, read)
    if known is None:
        return None
    there = during & np.isfinite(read[:, column])
    length = float((grid.end - grid.start)[there].sum())
    readings = min(max(length / scrape_seconds(grid), 1.0), float(there.sum()))
    return known, float(np.std(read[there, column]) / np.sqrt(readings))


BUSY = 0.8
"""Share of time with a kernel running, from which a GPU's mean power is that of one at work.

An idle GPU draws about a tenth of its power limit and a kernel at least a third, even one that only
waits (see IDLE), so that this share draws 0.8 / 3 + 0.2 / 10 = 0.29 of the limit, well above IDLE.
At a half it would be 0.22: light work on a healthy GPU would be called a contradiction. At 0.95 a
GPU that reports 90 % at idle power would be believed.
"""
IDLE = 0.2
"""Share of its power limit that an idle GPU stays under: 50 to 75 W of 300 to 700 W in data sheets
and `nvidia-smi`, 64 of 700 W in the example of NVIDIA's DGX B200 user guide (power capping); a
kernel that only waits (NCCL's spin) draws a third and more."""
PEERS_DRAW = 2.0
"""Times as much, at least: where all draw little, the work is light. Chosen, less than the three
times that a kernel draws of what an idle GPU does (see BUSY)."""


def idle_at_work(
    used: FloatGrid | float, drawn: FloatGrid | float, limit: FloatGrid | float,
    peers: FloatGrid | float,
) -> NDArray[np.bool_]:  # fmt: skip
    """Whether kernels run nearly always at the power of an idle GPU; NaN = not known.

    Args:
        used: Share of the time with a kernel running.
        drawn: Watts.
        limit: Watts; without one the peers alone show what idle is.
        peers: Watts that the peers draw.
    """
    known = (np.isfinite(limit) | np.isfinite(peers)) & np.isfinite(drawn)
    idle = np.logical_not(drawn > np.multiply(IDLE, limit))
    below = np.logical_not(np.multiply(PEERS_DRAW, drawn) > peers)
    contradicts: NDArray[np.bool_] = np.asarray(known & (used >= BUSY) & idle & below)
    return contradicts
