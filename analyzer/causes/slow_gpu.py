"""The GPU computes slowly although nothing that it tells explains it."""

from analyzer import symptoms
from analyzer.cause_spec import DRAIN, STRAGGLER_RUNBOOK, Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.slowness.before_after import (
    QUEUED,
    SM_CLOCK,
    THROTTLED,
    clock_event,
    clock_ratio,
    compute_share,
    gpu_words,
    has_gpu,
    query,
    share_of_excess,
    signal_before_after,
    throttle_rate,
    time_before_after,
)
from collector.contract import metrics
from collector.contract.words import CLOCK_EVENT_REASONS, Cause

COMPUTE_AT_LEAST = 0.7
"""Share of the excess that must lie in forward, backward and optimizer."""
MORE_CPU = 1.15
PARTLY = 0.35
"""Share of the excess that must be CPU time where the CPU is the device: as garbage.MUCH, not
measured on its own."""
UNSEEN = -3.0
"""A GPU of which neither clock nor throttling is known may as well be hot or capped: "unknown" is
the likelier word."""
UNTOLD = -1.5
"""Log odds without GPUs: the CPU is the device, and nothing of the kind is missing. Half of UNSEEN:
phases alone (3.0) still name it, and without phases it stays unknown."""
TELLS = 5.0
"""A GPU that tells of trouble does not compute slowly for nothing."""


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Moderate by phases alone, strong when the GPU's telemetry is there and normal."""
    if finding.kind != "slow":
        return Evidence(Cause.SLOW_GPU, -8.0)
    facts: list[Fact] = []
    missing: list[str] = []
    odds = _phases(grid, finding, facts, missing)
    odds += _throttle(grid, finding, facts, missing)
    for symptom in symptoms.of_gpu(grid, finding):
        odds -= TELLS
        facts.append(Fact(False, symptom.text, symptom.query))
    held = signal_before_after(grid, finding, metrics.RANK_THROTTLED.series())
    if held is not None and held.during >= 0.02:
        odds -= 4.0
        text = f"its CPU quota held the rank back {held.during:.0%} of the time"
        facts.append(Fact(False, text, query(grid, finding, metrics.RANK_THROTTLED.series())))
    queued = signal_before_after(grid, finding, metrics.RANK_RUN_QUEUE.series())
    if queued is not None and queued.risen >= QUEUED:
        odds -= 3.0
        text = f"it was ready to run and had no processor {queued.during:.0%} of the time"
        facts.append(Fact(False, text, query(grid, finding, metrics.RANK_RUN_QUEUE.series())))
    odds += _cpu(grid, finding, facts)
    return Evidence(Cause.SLOW_GPU, odds, tuple(facts), tuple(missing))


def _phases(grid: Grid, finding: Finding, facts: list[Fact], missing: list[str]) -> float:
    share = compute_share(grid, finding)
    if share is None:
        missing.append("when it computes: its program names no phases")
        return 0.0
    in_compute = share >= COMPUTE_AT_LEAST
    text = f"{share:.0%} of the excess is in forward, backward and optimizer"
    facts.append(Fact(in_compute, text, "phase shares of the finding"))
    return 3.0 if in_compute else -4.0


def _throttle(grid: Grid, finding: Finding, facts: list[Fact], missing: list[str]) -> float:
    if not has_gpu(grid, finding.rank):
        return UNTOLD
    rate = throttle_rate(grid, finding, CLOCK_EVENT_REASONS)
    clock = clock_ratio(grid, finding)
    gpu = gpu_words(grid, finding.rank)
    if rate is None:
        missing.append("GPU clock-event seconds")
    if clock is None:
        missing.append("SM clock")
    if rate is None and clock is None:
        return UNSEEN
    odds = 0.0
    if rate is not None:
        free = rate.risen < THROTTLED
        text = (
            f"{gpu} reports no throttling" if free
            else f"{gpu} reports throttling {rate.during:.0%} of the time"
        )  # fmt: skip
        facts.append(Fact(free, text, query(grid, finding, clock_event(CLOCK_EVENT_REASONS[0]))))
        odds += 0.5 if free else -5.0
    if clock is not None:
        reference, during = clock
        normal = during > 0.95 * reference
        text = f"SM clock {during / 1e6:.0f} MHz against {reference / 1e6:.0f} MHz before"
        facts.append(Fact(normal, text, query(grid, finding, SM_CLOCK)))
        # A lower clock has a reason; where throttling is not told, that is not none.
        odds += 0.5 if normal else -0.5 if rate is not None else UNSEEN
    return odds


def _cpu(grid: Grid, finding: Finding, facts: list[Fact]) -> float:
    used = time_before_after(grid, finding, "cpu")
    if used is None or not used.before > 0:
        return 0.0
    ratio = used.during / used.before
    if ratio < MORE_CPU:
        return 0.0
    is_device = not has_gpu(grid, finding.rank)
    if is_device and (share_of_excess(grid, finding, "cpu") or 0.0) < PARTLY:
        return 0.0
    where = "; the CPU is the device here" if is_device else ""
    text = f"its training thread used {ratio:.2f}x the CPU time per step{where}"
    facts.append(Fact(is_device, text, "cpu_seconds of steps.parquet"))
    return 1.5 if is_device else -1.0


SPEC = CauseSpec(
    cause=Cause.SLOW_GPU,
    evidence=evidence,
    must_see="The excess in the compute phases, clocks and throttle normal.",
    must_not_see=(
        "Any throttle reason, errors of memory, links or the driver that began with it, a CPU"
        " quota at work, time in the run queue, or much more CPU time of the training thread (on"
        " a run without GPUs the CPU is the device, and more CPU time speaks for it)."
    ),
    words="its GPU computes slowly for no reason that it tells",
    node_words="it computes slowly for no reason that its GPUs or the host tell",
    words_without_gpu="it computes slowly for no reason that the host tells",
    advice=(
        Action("verify", "Run the vendor's diagnosis on the GPU.", "ssh {node} dcgmi diag -r 3"),
        DRAIN,
        Action("prevent", "Compare driver, firmware and persistence mode with a healthy node."),
    ),
    advice_without_gpu=(
        Action("verify", "Compare the processor's clock and what else runs with a healthy node.",
               "ssh {node} 'lscpu | grep MHz; top -b -n 1 | head -20'"),
        DRAIN,
        Action("prevent", "Compare firmware, power governor and kernel with a healthy node."),
    ),
    runbook="LockstepGpuClockBelowPeers",
    runbook_without_gpu=STRAGGLER_RUNBOOK,
)  # fmt: skip
