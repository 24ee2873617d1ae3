"""Every name that Lockstep has on a Kubernetes cluster: domain, conditions, annotations, accounts.

Whoever writes to a cluster, and the chart, take them from here.
"""

from enum import StrEnum

API_DOMAIN = "lockstep.example"
"""Conditions, taints, labels and annotations hang under it, so what is ours is told by its name."""

NAMESPACE = "lockstep"
"""Of watch, the dashboard, and who acts on nodes."""
RUNS_NAMESPACE = "lockstep-runs"
"""Of launched runs and their account alone: who may create pods may take any account in it."""
COLLECTOR_NAMESPACE = "lockstep-collector"
"""Of the DaemonSet alone: its pods mount host paths."""
WATCH_ACCOUNT = "lockstep-watch"
DASHBOARD_ACCOUNT = "lockstep-dashboard"
RUNS_ACCOUNT = "lockstep-runs"
NODES_ACCOUNT = "lockstep-nodes"
COLLECTOR_ACCOUNT = "lockstep-collector"

RUN_LABEL = f"{API_DOMAIN}/run"
"""On everything that a run creates."""
ROLE_LABEL = f"{API_DOMAIN}/role"
"""What part an object has in a run."""
TEAM_LABEL = f"{API_DOMAIN}/team"
"""Who pays for a run, on its pods and on what owns them; absent where nobody says."""
SUBMISSION_LABEL = f"{API_DOMAIN}/submission"
"""On the object that owns a run: tells it from what somebody else created under the same name."""

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
"""On what a chart brought: it goes with its release."""

HEALTHY = f"{API_DOMAIN}/Healthy"
"""The summary condition of a node: True = good, as node-readiness-controller wants it."""


class Family(StrEnum):
    """What of a node is degraded: a condition each, True = bad (docs/method/node-conditions.md)."""

    GPU = f"{API_DOMAIN}/GpuDegraded"
    NVLINK = f"{API_DOMAIN}/NvlinkDegraded"
    RDMA = f"{API_DOMAIN}/RdmaDegraded"
    STRAGGLER = f"{API_DOMAIN}/StragglerSuspect"

    @property
    def word(self) -> str:
        """Without the domain."""
        return self.value.partition("/")[2]


CONDITIONS: tuple[str, ...] = (HEALTHY, *Family)
"""All that we write; no other is ever touched."""

FAULTS = f"{API_DOMAIN}/faults"
"""Annotation of a node: JSON {fault id: {since, source, value}}; conditions are for people."""
QUARANTINE = f"{API_DOMAIN}/quarantine"
"""Annotation of a node that carries, or carried, our taint: since when, why, and when before."""
TAINT = f"{API_DOMAIN}/degraded"
"""Key of our taint; nobody else's is touched."""
EXCLUDE_LABEL = f"{API_DOMAIN}/exclude"
"""On a node: it is left alone."""

LEASE = "lockstep-nodes"
"""In our namespace: who acts on nodes now. It carries the two annotations below."""
BREAKER = f"{API_DOMAIN}/breaker"
"""Annotation of the lease: JSON of the breaker; a human writes `reset`."""
PAUSE = f"{API_DOMAIN}/pause"
"""Annotation of the lease that a human writes: why no node is touched for now."""

GPU_RESOURCE = "nvidia.com/gpu"
GPU_LABEL = "nvidia.com/gpu.present"
CONTROL_PLANE_LABELS = (
    "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master",
)  # fmt: skip
