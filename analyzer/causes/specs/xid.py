"""The driver logged an error of the rank's GPU, and no part of it tells more."""

from lockstep.analyzer.causes.cause_spec import AGAINST, DRAIN, MUST, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.XID,
    kinds=("slow", "hang"),
    expects={
        MUST: ("XID",),
        AGAINST: ("memory errors", "NVLink trouble"),
    },
    must_see="An XID at the onset, or shortly before the rank stopped, not the application's.",
    must_not_see="XIDs of memory or links only; those parts are causes of their own.",
    words="the driver logged an error of its GPU",
    node_words="the driver logged errors of its GPUs",
    advice=(
        Action("verify", "Read the driver's messages; the XID catalogue says what each wants.",
               "ssh {node} \"dmesg -T | grep -i xid | tail\""),
        DRAIN,
    ),
    runbook="LockstepGpuXidFatal",
    of_gpu=True,
    explains=("driver", "gone",),
)  # fmt: skip
