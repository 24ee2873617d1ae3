"""Which faults this machine and these settings allow, and why not."""

from collector.contract.words import FaultKind
from workloads.faults import cgroup
from workloads.faults.plan import BUILT

_TOLD_BY_GPU = (FaultKind.THERMAL, FaultKind.POWER)


def available(*, pace: bool) -> dict[FaultKind, str]:
    """Kind -> empty if it can be injected, else the reason."""
    reasons = dict.fromkeys(BUILT, "")
    reasons[FaultKind.CPU_QUOTA] = cgroup.why_not()
    if not pace:
        for kind in _TOLD_BY_GPU:
            reasons[kind] = f"{kind} needs emulated devices: leave out --pace off"
    return reasons
