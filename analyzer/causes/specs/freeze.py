"""The rank's process is there and does not run."""

from lockstep.analyzer.causes.cause_spec import AGAINST, MUST, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.FREEZE,
    kinds=("slow", "hang"),
    expects={
        MUST: ("process frozen", "stopped heartbeat"),
        AGAINST: ("process gone", "XID", "excess on the CPU", "no processor"),
    },
    must_see="A heartbeat that stopped (helper thread, every second) while the process exists.",
    words="its process stands still",
    node_words="its processes stand still",
    advice=(
        Action("verify", "See what the process is waiting for.",
               "ssh {node} 'ps -eo pid,stat,wchan:32,cmd | grep -E \"^ *[0-9]+ +[DT]\"'"),
        Action("mitigate", "Restart the run without the node from the last checkpoint."),
    ),
    runbook="LockstepRunStalled",
    explains=("gone",),
)  # fmt: skip
