"""How `lockstep nodes` was asked to work."""

from dataclasses import dataclass

from lockstep.collector.contract.kubernetes import NAMESPACE
from lockstep.watch.node_conditions.shapes import Mode

LEASE_CYCLES = 3
LEAST_LEASE_SECONDS = 15.0
"""Of kube-controller-manager's own lease."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings.

    Attributes:
        watch: Address of its page.
        mode: How far to go.
        dry_run: Tell what would be written by events that begin with [dry-run], and write nothing
            else.
        selector: Of the nodes that may be touched; empty = those with GPUs.
        namespace: Of the lease.
        interval: Seconds between two cycles.
        lease: Of its lease, seconds.
    """

    watch: str
    mode: Mode = Mode.OBSERVE
    dry_run: bool = False
    selector: str = ""
    namespace: str = NAMESPACE
    interval: float = 10.0
    lease: float = LEAST_LEASE_SECONDS

    @property
    def writes(self) -> bool:
        """Whether conditions are written."""
        return self.mode is not Mode.OBSERVE and not self.dry_run


def lease_seconds(interval: float) -> float:
    """How long a lease holds that is renewed in every cycle."""
    return max(LEAST_LEASE_SECONDS, LEASE_CYCLES * interval)
