"""The host does not give the rank the CPU it needs."""

from analyzer.cause_spec import Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.slowness.before_after import (
    QUEUED,
    THROTTLED,
    clock_event,
    gpu_words,
    query,
    share_of_excess,
    signal_before_after,
    throttle_rate,
    time_before_after,
)
from collector.contract import metrics
from collector.contract.words import CLOCK_EVENT_REASONS, Cause, Phase

HELD_BACK = 0.02
"""Share of time stopped by the quota from which it can matter (5 % of a step, half seen)."""
MOSTLY_DATA = 0.6
MORE_CPU = 1.15
COLLECTING = 0.35
"""As causes.garbage: who collects wants a processor for it."""


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong with throttled seconds on the rank; against it when the counter stands still."""
    if finding.kind != "slow":
        return Evidence(Cause.HOST_CPU, -8.0)
    key = metrics.RANK_THROTTLED.series()
    facts: list[Fact] = []
    missing: list[str] = []
    odds = 0.0
    held = signal_before_after(grid, finding, key)
    if held is None:
        missing.append("CPU quota counters of the rank")
        odds -= 2.0
    else:
        held_back = held.risen >= HELD_BACK
        before = "" if held.before != held.before else f" (before: {held.before:.0%})"
        text = f"its CPU quota held the rank back {held.during:.0%} of the time{before}"
        facts.append(Fact(held_back, text, query(grid, finding, key)))
        odds += 6.0 if held_back else -4.0
    odds += _queued(grid, finding, facts, missing)
    used = time_before_after(grid, finding, "cpu")
    if used is not None and used.before > 0:
        ratio = used.during / used.before
        worked = ratio >= MORE_CPU
        text = f"its training thread used {ratio:.2f}x the CPU time per step of before"
        facts.append(Fact(not worked, text, "cpu_seconds of steps.parquet"))
        odds += -1.0 if worked else 0.5
    throttle = throttle_rate(grid, finding, CLOCK_EVENT_REASONS)
    if throttle is not None and throttle.risen >= THROTTLED:
        text = f"{gpu_words(grid, finding.rank)} was throttled {throttle.during:.0%}"
        text += " of the time"
        odds -= 4.0
        event = clock_event(CLOCK_EVENT_REASONS[0])
        facts.append(Fact(False, text, query(grid, finding, event)))
    if finding.share.get(Phase.DATA, 0.0) >= MOSTLY_DATA:
        odds -= 3.0
        text = f"{finding.share[Phase.DATA]:.0%} of the excess is in the data phase"
        facts.append(Fact(False, text, "phase shares of the finding"))
    collecting = share_of_excess(grid, finding, "gc")
    if collecting is not None and collecting >= COLLECTING:
        odds -= 6.0
        text = f"{collecting:.0%} of the excess is in Python's garbage collector"
        facts.append(Fact(False, text, "operations gc of ops.parquet by rank"))
    return Evidence(Cause.HOST_CPU, odds, tuple(facts), tuple(missing))


def _queued(grid: Grid, finding: Finding, facts: list[Fact], missing: list[str]) -> float:
    """Contention: another process takes the rank's processor."""
    key = metrics.RANK_RUN_QUEUE.series()
    queued = signal_before_after(grid, finding, key)
    if queued is None:
        missing.append("run queue time of the rank")
        return 0.0
    if queued.risen < QUEUED:
        return 0.0
    text = f"it was ready to run and had no processor {queued.during:.0%} of the time"
    facts.append(Fact(True, text, query(grid, finding, key)))
    # As strong as a quota, and without it: the two are not both needed.
    return 8.0


SPEC = CauseSpec(
    cause=Cause.HOST_CPU,
    evidence=evidence,
    must_see=(
        "A CPU quota at work, or time in the run queue, that began with the slowdown. The first"
        " is cgroup cpu.stat, the second /proc/PID/schedstat: another process has the CPU."
        " Without the cgroup counter little speaks for it."
    ),
    must_not_see=(
        "GPU throttling, the excess only in the data phase, more CPU time per step (that is"
        " work, not want)."
    ),
    words="the host does not give it the CPU it needs",
    node_words="the host does not give its ranks the CPU they need",
    advice=(
        Action("verify", "See what else runs, and whether a quota holds the rank back.",
               "ssh {node} 'top -b -n 1 | head -20;"
               " grep -r throttled_ /sys/fs/cgroup --include=cpu.stat'"),
        Action("mitigate", "Raise the pod's CPU limit, or move the neighbour away."),
    ),
    explains=("host",),
)  # fmt: skip
