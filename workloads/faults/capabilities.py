"""Which faults this machine and these settings allow, and why not."""

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults import cpu_quota
from lockstep.workloads.faults.kinds import BUILT, GPU_KINDS
from lockstep.workloads.faults.link import LINK_KINDS
from lockstep.workloads.network import capabilities as network


class Reasons(dict[FaultKind, str]):
    """Kind -> reason; a kind is looked into when it is first asked for.

    To find out what the network can do takes devices of the kernel, which most runs need not wait
    for.
    """

    def __init__(self, *, pace: bool) -> None:
        super().__init__()
        self._pace = pace

    def __missing__(self, kind: FaultKind) -> str:
        """Empty if it can be injected, else the reason."""
        self[kind] = reason = self._found(kind)
        return reason

    def _found(self, kind: FaultKind) -> str:
        if kind is FaultKind.CPU_QUOTA:
            return cpu_quota.why_not()
        if kind in LINK_KINDS:
            return network.why_not(kind)
        if kind in GPU_KINDS and not self._pace:
            return f"{kind} needs emulated devices: leave out --pace off"
        return ""


def available(*, pace: bool) -> dict[FaultKind, str]:
    """Kind -> empty if it can be injected, else the reason; by `[kind]`, for all of BUILT."""
    return Reasons(pace=pace)


def refused(*, pace: bool) -> dict[FaultKind, str]:
    """The kinds that cannot be injected, and why."""
    reasons = available(pace=pace)
    return {kind: reasons[kind] for kind in BUILT if reasons[kind]}
