"""The rank's process is gone."""

from lockstep.analyzer.causes.cause_spec import AGAINST, MUST, Action, CauseSpec
from lockstep.collector.contract.words import Cause

ADVICE = (
    Action("verify", "Look for the kernel's reason.",
           "ssh {node} 'dmesg -T | grep -iE \"oom|killed|xid|segfault\" | tail'"),
    Action("mitigate", "Restart from the last checkpoint; drain the node if it crashes again."),
)  # fmt: skip

SPEC = CauseSpec(
    cause=Cause.CRASH,
    kinds=("hang",),
    expects={
        MUST: ("process gone",),
        AGAINST: ("XID",),
    },
    must_see="`lockstep_rank_up` 0 while the peers were still inside a collective.",
    must_not_see="An XID of its GPU shortly before, which ends a process from outside.",
    words="its process is gone",
    node_words="its processes are gone",
    advice=ADVICE,
    advice_without_gpu=(
        Action("verify", "Look for the kernel's reason.",
               "ssh {node} 'dmesg -T | grep -iE \"oom|killed|segfault\" | tail'"),
        *ADVICE[1:],
    ),
    runbook="LockstepRankGone",
    explains=("gone",),
)  # fmt: skip
