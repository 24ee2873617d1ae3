"""The exact rights of who acts on nodes: one row for each call that `kubernetes.py` makes.

The chart's roles equal these rows, and tests make every call with them and nothing else.
"""

from dataclasses import dataclass

from lockstep.collector.contract.kubernetes import LEASE, NAMESPACE

EVENT_NAMESPACE = "default"
"""Where core/v1 events about nodes lie, as those of the kubelet do
(docs/method/node-conditions.md)."""


@dataclass(frozen=True, slots=True)
class Right:
    """What may be done.

    Attributes:
        namespace: Of a Role; empty = a ClusterRole.
        group: Of the API; empty = core.
        resource: With its subresource.
        verbs: In the order of RBAC's own documentation.
        names: Of the only objects (resourceNames); empty = any.
    """

    namespace: str
    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


RIGHTS: tuple[Right, ...] = (
    Right("", "", "nodes", ("get", "list")),
    # Conditions and our annotation in one patch; what is under spec stays as it is.
    Right("", "", "nodes/status", ("patch",)),
    Right(EVENT_NAMESPACE, "", "events", ("create",)),
    # RBAC cannot limit `create` by name, so the chart brings the lease, and nobody may make others.
    # Where there is none it is created all the same, by an account that may.
    Right(NAMESPACE, "coordination.k8s.io", "leases", ("get", "patch"), (LEASE,)),
)
"""Of mode annotate; `lockstep nodes --remove` needs the rows of nodes, and `get` of the lease."""
OBSERVE = RIGHTS[:1]
"""Of mode observe, which reads alone."""
DRY_RUN = (RIGHTS[0], RIGHTS[2])
"""Of mode annotate with --dry-run: nodes and events; it holds no lease."""
