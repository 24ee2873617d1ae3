"""The GPU computes slowly although nothing that it tells explains it."""

from lockstep.analyzer.causes.cause_spec import (
    AGAINST,
    DRAIN,
    MAY,
    MUST,
    STRAGGLER_RUNBOOK,
    Action,
    CauseSpec,
)
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.SLOW_GPU,
    expects={
        MUST: ("excess in compute",),
        MAY: ("excess on the CPU",),
        AGAINST: (
            "thermal throttling", "power throttling", "lower clock", "memory errors", "XID",
            "PCIe trouble", "NVLink trouble", "no processor", "garbage collection", "idle GPU",
            "stopped heartbeat", "contradiction", "other software",
        ),
    },
    must_see="The excess in the compute phases, clocks and throttle normal.",
    must_not_see=(
        "Any throttle reason, errors of memory, links or the driver that began with it, a CPU"
        " quota at work, time in the run queue, a heartbeat that stopped, or much more CPU time of"
        " the training thread (on a run without GPUs the CPU is the device, and more CPU time"
        " speaks for it)."
    ),
    words="its GPU computes slowly for no reason that it reports",
    node_words="it computes slowly for no reason that its GPUs or the host report",
    words_without_gpu="it computes slowly for no reason that the host reports",
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
