"""The GPU is held at a power cap, or braked from outside, and lowers its clock."""

from analyzer.cause_spec import QUERY, Action, CauseSpec
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

REASONS = ("sw_power_cap", "hw_power_brake")
THERMAL_REASONS = ("hw_thermal", "sw_thermal")
LIMIT = metrics.GPU_POWER_LIMIT.series(kind="enforced")
AT_CAP = 0.95
"""Power at this share of the limit in force is at the cap."""


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong with cap seconds that began with the slowdown; weak without telemetry."""
    if finding.kind != "slow":
        return Evidence(Cause.POWER, -8.0)
    facts: list[Fact] = []
    missing: list[str] = []
    odds = 0.0
    gpu = gpu_words(grid, finding.rank)
    rate = throttle_rate(grid, finding, REASONS)
    capped = rate is not None and rate.risen >= THROTTLED
    key = clock_event(REASONS[0])
    if rate is None:
        missing.append("power clock-event seconds")
        odds -= 1.0
    else:
        odds += 5.0 if capped else -5.0
        before = "" if rate.before != rate.before else f" (before: {rate.before:.0%})"
        text = f"{gpu} was held at its power cap {rate.during:.0%} of the time{before}"
        facts.append(Fact(capped, text, query(grid, finding, key)))
    odds += _clock(grid, finding, capped, facts, missing)
    odds += _at_cap(grid, finding, capped, facts, missing)
    thermal = throttle_rate(grid, finding, THERMAL_REASONS)
    if thermal is not None and thermal.risen >= THROTTLED:
        odds -= 3.0
        text = f"{gpu} was in thermal slowdown {thermal.during:.0%} of the time"
        facts.append(Fact(False, text, query(grid, finding, clock_event(THERMAL_REASONS[0]))))
    odds += outside_compute(grid, finding, facts)
    return Evidence(Cause.POWER, odds, tuple(facts), tuple(missing))


def _clock(
    grid: Grid, finding: Finding, capped: bool, facts: list[Fact], missing: list[str]
) -> float:
    clock = clock_ratio(grid, finding)
    if clock is None:
        missing.append("SM clock")
        return -0.5
    reference, during = clock
    fell = during <= 0.95 * reference
    text = f"SM clock {during / 1e6:.0f} MHz against {reference / 1e6:.0f} MHz before"
    facts.append(Fact(fell, text, query(grid, finding, SM_CLOCK)))
    if fell:
        return 1.0
    # Cap seconds without a lower clock contradict each other: one of the two lies.
    return -4.0 if capped else -1.0


def _at_cap(
    grid: Grid, finding: Finding, capped: bool, facts: list[Fact], missing: list[str]
) -> float:
    drawn = signal_before_after(grid, finding, metrics.GPU_POWER.series())
    limit = signal_before_after(grid, finding, LIMIT)
    if drawn is None or limit is None:
        missing.append("GPU power and its limit")
        return -0.5
    at_cap = drawn.during >= AT_CAP * limit.during
    lowered = limit.during < 0.97 * max(limit.before, limit.peers)
    text = f"power {drawn.during:.0f} W at a limit of {limit.during:.0f} W"
    if lowered:
        text += f", lowered from {max(limit.before, limit.peers):.0f} W"
    facts.append(Fact(at_cap, text, query(grid, finding, metrics.GPU_POWER.series())))
    if not capped:
        return 0.0
    return (1.0 if at_cap else -1.5) + (0.5 if lowered and at_cap else 0.0)


SPEC = CauseSpec(
    cause=Cause.POWER,
    evidence=evidence,
    must_see=(
        "Power-cap or brake seconds (NVML F74 to F78) beyond the peers', a lower SM clock. A"
        " healthy H100 touches its cap too, so only what is more than before and than at the"
        " peers counts."
    ),
    must_not_see="Thermal throttle seconds, the clock at its maximum.",
    words="its GPU is held at a power cap",
    node_words="its GPUs are held at a power cap",
    advice=(
        Action("verify", "Compare the power limit with its default.", QUERY + "POWER,PERFORMANCE"),
        Action("mitigate", "Restore the limit if nobody lowered it on purpose.",
               "ssh {node} 'nvidia-smi -i {gpu} -pl $(nvidia-smi -i {gpu}"
               " --query-gpu=power.default_limit --format=csv,noheader,nounits)'"),
        Action("prevent", "Check the rack's power cap and the supply."),
    ),
    runbook="LockstepGpuPowerBrake",
    of_gpu=True,
)  # fmt: skip
