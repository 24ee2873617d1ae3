"""Cause -> the runbook that says more than a report can."""

from collections.abc import Container, Iterable

from analyzer.alert_rules.shape import PLACEHOLDERS
from analyzer.run import Culprit
from collector.contract.words import Cause

RUNBOOK: dict[str, str] = {
    Cause.THERMAL: "LockstepGpuThermalViolation",
    Cause.POWER: "LockstepGpuPowerBrake",
    Cause.SLOW_GPU: "LockstepGpuClockBelowPeers",
    Cause.ECC: "LockstepGpuEccUncorrectable",
    Cause.XID: "LockstepGpuXidFatal",
    Cause.PCIE: "LockstepPcieDowntrained",
    Cause.NVLINK: "LockstepNvlinkDown",
    Cause.LINK: "LockstepIbLinkDown",
    Cause.CONGESTION: "LockstepRoceCongestionDiscards",
    Cause.FREEZE: "LockstepRunStalled",
    Cause.CRASH: "LockstepRankGone",
    Cause.SOFTWARE: "LockstepRunSlowVsBaseline",
}
"""Cause -> the alert whose runbook tells more; the others get that of a straggling node."""
STRAGGLER_RUNBOOK = "LockstepStragglerNode"


def runbooks(
    culprits: Iterable[Culprit], without_gpu: Container[str | None] = ()
) -> dict[str, str]:
    """Words -> address, one a runbook; on nodes without a GPU none that is about GPUs."""
    names = dict.fromkeys(
        STRAGGLER_RUNBOOK
        if one.cause == Cause.SLOW_GPU and one.node in without_gpu
        else RUNBOOK.get(one.cause, STRAGGLER_RUNBOOK)
        for one in culprits
    )
    return {f"Runbook {name}": PLACEHOLDERS.runbook(name) for name in names}
