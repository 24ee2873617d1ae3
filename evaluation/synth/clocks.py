"""Heat, power and clocks of every GPU at every scrape.

First order: temperature follows power through the cooler with one time constant; a part that is
too hot, capped or braked lowers its SM clock; compute takes longer in proportion to the share of
it that the clock bounds.
"""

from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract.words import CLOCK_EVENT_REASONS, Cause
from lockstep.evaluation.synth.fleet import Fault, SyntheticFleet, Telling
from lockstep.evaluation.synth.scrapes import Scrapes, active, onset
from lockstep.evaluation.synth.times import COMPUTES, Times
from lockstep.evaluation.synth.variant import Variant

LOADED = 0.96
"""Of the highest clock, under load (boost falls with power)."""
STEP_HERTZ = 15e6
"""NVIDIA's clocks move in steps of 15 MHz."""
CLOCK_NOISE = 0.003
DRAWN = 0.85
"""Of the limit, by a part that computes all the time."""
WAITING = 0.35
"""Of that, by one that waits in a collective: its kernel polls."""
POWER_NOISE = 0.02
POWER_EXPONENT = 1.5
"""Of power over the clock: between 1 (same voltage) and 3 (voltage falls as fast)."""
HOTTER = 8.0
"""Celsius above the slowdown limit that a part without cooling would reach."""
GPU_SPREAD, NODE_SPREAD, READING = 2.5, 2.0, 0.4
"""Celsius: between GPUs by their place in the air, between inlets, of a reading."""
CAP_OF_SPREAD = 1.2
"""Healthy parts touch their cap for this share of their natural slowness (power-limited parts
differ in what they draw for the same work: SC22, arXiv 2208.11035)."""
AT_CAP, CAP_NOISE = 0.99, 0.004
LIMITED = 0.97
LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Clocks:
    """(T, R) each: celsius, watts, watts, hertz, ratio; seconds a second by reason."""

    temperature: FloatGrid
    power: FloatGrid
    limit: FloatGrid
    clock: FloatGrid
    activity: FloatGrid
    throttled: dict[str, FloatGrid]


def clocks(
    fleet: SyntheticFleet, variant: Variant, times: Times, seen: Scrapes, dice: np.random.Generator
) -> Clocks:
    """What every GPU does."""
    shape = seen.rank_time.shape
    computing = np.sum([times.own_by_phase[p] for p in COMPUTES], axis=0) / times.wall[:, None]
    rank = np.arange(fleet.world)
    activity = np.where(seen.stopped, 0.0, computing[seen.rank_step, rank])
    usual = LOADED * variant.clock_max * np.exp(-variant.spread_in_clock * times.spread)
    ratio = np.ones(shape)
    throttled = {reason: np.zeros(shape) for reason in CLOCK_EVENT_REASONS}
    throttled["sw_power_cap"] += CAP_OF_SPREAD * times.spread * (activity > 0)
    limit = np.full(shape, variant.power_limit)
    for fault, place, strong in active(fleet, times, seen, Cause.THERMAL, Cause.POWER):
        bound = dice.uniform(*variant.bound)
        duty = fault.faint * dice.uniform(*variant.duty) * (strong > 0)
        for reason in _reasons(fault):
            throttled[reason][:, place] = np.maximum(throttled[reason][:, place], duty)
        if fault.telling is not Telling.CONTRADICTED:
            ratio[:, place] = bound / (bound + (fault.factor - 1.0) * strong)
    clock = usual * ratio * (1.0 + CLOCK_NOISE * dice.standard_normal(shape))
    clock = np.minimum(np.round(clock / STEP_HERTZ) * STEP_HERTZ, variant.clock_max)
    drawn = (DRAWN * variant.power_limit - variant.power_idle) * (
        WAITING + (1.0 - WAITING) * activity
    )
    power = variant.power_idle + drawn * ratio**POWER_EXPONENT
    power = power * (1.0 + POWER_NOISE * dice.standard_normal(shape))
    for fault, place, strong in active(fleet, times, seen, Cause.POWER):
        if fault.form == "brake" or fault.telling is Telling.CONTRADICTED:
            continue
        capped = strong > 0
        if fault.form == "limit":
            limit[capped, place] = LIMITED * power[capped, place].mean()
        flat = limit[:, place] * (AT_CAP + CAP_NOISE * dice.standard_normal(len(strong)))
        power[:, place] = np.where(capped, flat, power[:, place])
    temperature = _heat(fleet, variant, power, seen, dice)
    _without_cooling(fleet, variant, times, seen, temperature, dice)
    for fault, place, strong in active(fleet, times, seen, Cause.SLOW_GPU):
        if fault.telling is Telling.CONTRADICTED:
            # Busy, it says, and draws what an idle part draws.
            power[strong > 0, place] = variant.power_idle
    return Clocks(temperature, power, limit, clock, activity, throttled)


def _reasons(fault: Fault) -> tuple[str, ...]:
    """The clock-event reasons of a form; NVML tells hw_slowdown with each of hardware."""
    return {
        "hw": ("hw_thermal", "hw_slowdown"),
        "sw": ("sw_thermal",),
        "brake": ("hw_power_brake", "hw_slowdown"),
    }.get(fault.form, ("sw_power_cap",))


def _heat(
    fleet: SyntheticFleet,
    variant: Variant,
    power: FloatGrid,
    seen: Scrapes,
    dice: np.random.Generator,
) -> FloatGrid:
    inlet = variant.inlet + NODE_SPREAD * dice.standard_normal(fleet.nodes)[seen.node_of]
    inlet = inlet + GPU_SPREAD * dice.standard_normal(fleet.world)
    target = inlet + variant.celsius_per_watt * power
    keep = np.exp(-seen.since(seen.rank_time) / variant.thermal_seconds)
    made = np.empty_like(target)
    made[0] = target[0]
    for row in range(1, len(target)):
        made[row] = target[row] + (made[row - 1] - target[row]) * keep[row]
    noisy: FloatGrid = made + READING * dice.standard_normal(made.shape)
    return noisy


def _without_cooling(
    fleet: SyntheticFleet, variant: Variant, times: Times, seen: Scrapes, temperature: FloatGrid,
    dice: np.random.Generator,
) -> None:  # fmt: skip
    """Temperature first: the cooler fails before the clock falls, by as long as heating takes."""
    for fault, place, strong in active(fleet, times, seen, Cause.THERMAL):
        if fault.telling is Telling.CONTRADICTED:
            continue
        time, normal = seen.rank_time[:, place], float(np.median(temperature[:, place]))
        most = variant.slowdown_celsius + HOTTER
        lead = variant.thermal_seconds * np.log(max(most - normal, HOTTER + LEAST) / HOTTER)
        failed = time - (onset(fault, seen) - lead)
        heated = most - (most - normal) * np.exp(-np.maximum(failed, 0.0) / variant.thermal_seconds)
        held = variant.slowdown_celsius + dice.uniform(-1.0, 2.0, len(time))
        hot = np.where(strong > 0, np.minimum(heated, held), heated)
        last = np.flatnonzero(strong > 0)
        over = np.zeros(len(time), dtype=bool)
        if last.size and last[-1] + 1 < len(time):
            over[last[-1] + 1 :] = True
            cooling = np.exp(-(time - time[last[-1]]) / variant.thermal_seconds)
            hot = np.where(over, normal + (variant.slowdown_celsius - normal) * cooling, hot)
        temperature[:, place] = np.where(failed > 0, hot, temperature[:, place])
