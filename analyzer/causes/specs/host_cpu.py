"""The host does not give the rank the CPU it needs."""

from lockstep.analyzer.causes.cause_spec import AGAINST, MAY, MUST, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.HOST_CPU,
    expects={
        MUST: ("no processor",),
        MAY: ("pressure", "idle GPU"),
        AGAINST: (
            "excess in data", "garbage collection", "thermal throttling", "power throttling",
            "excess on the CPU",
        ),
    },
    must_see=(
        "A CPU quota at work, or time in the run queue, that began with the slowdown. The first"
        " is cgroup cpu.stat, the second /proc/PID/schedstat: another process has the CPU."
        " Without the cgroup counter little speaks for it."
    ),
    must_not_see=(
        "GPU throttling, the excess only in the data phase, or in CPU time of the training thread"
        " (that is work, not want)."
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
