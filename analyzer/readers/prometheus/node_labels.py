"""Leaf and rack of nodes, from the Kubernetes node labels that kube-state-metrics tells of.

`kube_node_labels` has them only where it was started with `--metric-labels-allowlist=nodes=[...]`.
"""

import re
from collections.abc import Mapping, Sequence

from analyzer.readers.places import KINDS, Places
from analyzer.readers.prometheus.connection import Connection
from analyzer.readers.prometheus.errors import RequestError
from analyzer.readers.prometheus.promql import lasting

METRIC = "kube_node_labels"
NodeLabels = Mapping[str, Sequence[str]]
"""Kind of place -> Kubernetes labels, the first that a node has counts."""
LABELS: NodeLabels = {
    "leaf": (
        "network.topology.nvidia.com/leaf",
        "fabric.topograph.run/tier-0",
        "topology.k8s.aws/network-node-layer-4",
        "topology.k8s.aws/network-node-layer-3",
        "cloud.google.com/gce-topology-subblock",
        "oci.oraclecloud.com/rdma.local_block_id",
    ),
    "rack": ("topology.kubernetes.io/rack", "cloud.provider.com/topology-rack"),
}
"""Leaf: NVIDIA Topograph ("Topograph Node Labels and Annotations": leaf, since 1.0 tier-0); AWS
("Place distributed AI/ML workloads with network topology labels", EKS user guide: layer 3, of some
instances layer 4, is the bottom one); Google Cloud (GKE, topology-aware scheduling: hosts of a
sub-block share their switches); Oracle (OKE with RDMA networks: local block). Rack: no label of
Kubernetes itself; what its and Kueue's examples write."""
LOOK_BACK = 3600.0
"""Seconds before the end in which the labels were told last."""


def with_own(told: Sequence[str]) -> NodeLabels:
    """LABELS, with `KIND=LABEL` words before them.

    Raises:
        RequestError: A word is not that.
    """
    found = {kind: list(names) for kind, names in LABELS.items()}
    for word in reversed(told):
        kind, _, label = word.partition("=")
        if kind not in KINDS or not label:
            raise RequestError(
                f"--node-label {word!r} must be KIND=LABEL, KIND one of {', '.join(KINDS)}"
            )
        found.setdefault(kind, []).insert(0, label)
    return found


def places(connection: Connection, end: float, labels: NodeLabels = LABELS) -> Places:
    """Where the nodes of a cluster stand; nothing where nobody tells.

    Args:
        connection: To the Prometheus.
        end: Unix seconds.
        labels: Which labels of a node say so.

    Raises:
        SourceError: Prometheus does not answer.
    """
    names = {kind: [series_label(one) for one in each] for kind, each in labels.items()}
    # A target's own label `node` makes the page's an `exported_node`.
    by = ", ".join(["node", "exported_node", *(one for each in names.values() for one in each)])
    query = f"count by ({by}) (last_over_time({METRIC}[{lasting(LOOK_BACK)}]))"
    found: dict[str, dict[str, str]] = {}
    for told, _ in connection.instant(query, end):
        node = told.get("exported_node") or told.get("node", "")
        for kind, each in names.items():
            value = next((told[one] for one in each if told.get(one)), None)
            if node and value is not None:
                found.setdefault(node, {})[kind] = value
    return found


def series_label(label: str) -> str:
    """How kube-state-metrics writes a Kubernetes label: `label_` and what Prometheus allows.

    kube-state-metrics internal/store/utils.go: other characters become `_`, camel case snake case.
    """
    allowed = re.sub(r"[^a-zA-Z0-9_]", "_", label)
    return "label_" + re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", allowed).lower()
