"""The exact rights of who acts on nodes: one row for each call that `kubernetes.py` makes.

The chart's roles equal these rows, and tests make every call with them and nothing else.
"""

from dataclasses import dataclass

from collector.contract.kubernetes import NAMESPACE

EVENT_NAMESPACE = "default"
"""Where core/v1 events about nodes lie, as those of the kubelet do (reference 6.3)."""


@dataclass(frozen=True, slots=True)
class Right:
    """What may be done.

    Attributes:
        namespace: Of a Role; empty = a ClusterRole.
        group: Of the API; empty = core.
        resource: With its subresource.
        verbs: In the order of RBAC's own documentation.
    """

    namespace: str
    group: str
    resource: str
    verbs: tuple[str, ...]


RIGHTS: tuple[Right, ...] = (
    Right("", "", "nodes", ("get", "list")),
    # Conditions and our annotation in one patch; what is under spec stays as it is.
    Right("", "", "nodes/status", ("patch",)),
    Right(EVENT_NAMESPACE, "", "events", ("create",)),
    Right(NAMESPACE, "coordination.k8s.io", "leases", ("get", "create", "patch")),
)
"""Of modes observe and annotate; observe needs the first row alone."""
