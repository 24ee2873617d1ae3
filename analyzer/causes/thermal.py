"""The GPU is too hot and lowers its clock."""

from analyzer.cause_spec import DRAIN, QUERY, Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.slowness.before_after import (
    SM_CLOCK,
    THROTTLED,
    clock_event,
    clock_ratio,
    gpu_words,
    query,
    signal_before_after,
    throttle_rate,
)
from analyzer.symptoms.weigh import outside_compute
from collector.contract import metrics
from collector.contract.words import Cause

REASONS = ("hw_thermal", "sw_thermal")
POWER_REASONS = ("sw_power_cap", "hw_power_brake")
TEMPERATURE = metrics.GPU_TEMPERATURE.series(sensor="gpu")
RISE_CELSIUS = 5.0
DOSE = 0.25
"""The clock fell and own time grew by the same factor within this share."""


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong with throttle seconds that began with the slowdown; weak without telemetry."""
    if finding.kind != "slow":
        return Evidence(Cause.THERMAL, -8.0)
    facts: list[Fact] = []
    missing: list[str] = []
    odds = 0.0
    gpu = gpu_words(grid, finding.rank)
    rate = throttle_rate(grid, finding, REASONS)
    throttled = rate is not None and rate.risen >= THROTTLED
    key = clock_event(REASONS[0])
    if rate is None:
        missing.append("thermal clock-event seconds")
        odds -= 1.0
    elif throttled:
        odds += 5.0
        before = "" if rate.before != rate.before else f" (before: {rate.before:.0%})"
        text = f"{gpu} was in thermal slowdown {rate.during:.0%} of the time{before}"
        facts.append(Fact(True, text, query(grid, finding, key)))
    else:
        odds -= 5.0
        text = f"{gpu} was in thermal slowdown {rate.during:.0%} of the time"
        facts.append(Fact(False, text, query(grid, finding, key)))
    odds += _clock(grid, finding, throttled, facts, missing)
    odds += _temperature(grid, finding, facts, missing)
    power = throttle_rate(grid, finding, POWER_REASONS)
    if power is not None and power.risen >= THROTTLED:
        odds -= 3.0
        text = f"{gpu} was also power-capped {power.during:.0%} of the time"
        facts.append(Fact(False, text, query(grid, finding, clock_event(POWER_REASONS[0]))))
    odds += outside_compute(grid, finding, facts)
    return Evidence(Cause.THERMAL, odds, tuple(facts), tuple(missing))


def _clock(
    grid: Grid, finding: Finding, throttled: bool, facts: list[Fact], missing: list[str]
) -> float:
    clock = clock_ratio(grid, finding)
    if clock is None:
        missing.append("SM clock")
        return -0.5
    reference, during = clock
    text = f"SM clock {during / 1e6:.0f} MHz against {reference / 1e6:.0f} MHz before"
    fell = during <= 0.95 * reference
    facts.append(Fact(fell, text, query(grid, finding, SM_CLOCK)))
    if not fell:
        # Throttle seconds without a lower clock contradict each other: one of the two lies.
        return -4.0 if throttled else -1.0
    same_dose = abs(reference / during / finding.slowdown - 1.0) <= DOSE
    return 1.5 if same_dose else 1.0


def _temperature(grid: Grid, finding: Finding, facts: list[Fact], missing: list[str]) -> float:
    told = signal_before_after(grid, finding, TEMPERATURE)
    if told is None:
        missing.append("GPU temperature")
        return -0.5
    hot = told.risen >= RISE_CELSIUS
    text = f"temperature {told.during:.0f} °C"
    if told.peers == told.peers:
        text += f", peers {told.peers:.0f} °C"
    facts.append(Fact(hot, text, query(grid, finding, TEMPERATURE)))
    return 1.0 if hot else -1.5


SPEC = CauseSpec(
    cause=Cause.THERMAL,
    evidence=evidence,
    must_see="Thermal throttle seconds (NVML F79 to F81) and a lower SM clock, the rank hotter.",
    must_not_see=(
        "Power-cap seconds without thermal ones, the clock at its maximum, or growth outside the"
        " compute phases."
    ),
    words="its GPU is too hot",
    node_words="its GPUs are too hot",
    advice=(
        Action("verify", "Read temperatures and throttle reasons on the node.",
               QUERY + "TEMPERATURE,PERFORMANCE,CLOCK"),
        DRAIN,
        Action("prevent", "Have inlet temperature, fans and the heat sink's seating checked."),
    ),
    runbook="LockstepGpuThermalViolation",
    of_gpu=True,
)  # fmt: skip
