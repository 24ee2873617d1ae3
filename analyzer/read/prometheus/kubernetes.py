"""Leaf and rack of nodes, and teams of runs, from labels that kube-state-metrics exports.

It exports them only where it was started with `--metric-labels-allowlist=nodes=[...]` and
`--metric-labels-allowlist=pods=[lockstep.example/run,lockstep.example/team]`.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lockstep.analyzer.read.places import KINDS, Places
from lockstep.analyzer.read.prometheus.access import RequestError
from lockstep.analyzer.read.prometheus.promql import lasting, series
from lockstep.collector.contract.kubernetes import RUN_LABEL, TEAM_LABEL

if TYPE_CHECKING:
    from lockstep.analyzer.read.prometheus.connection import Connection


LOG = logging.getLogger(__name__)

METRIC = "kube_node_labels"
NodeLabels = Mapping[str, Sequence[str]]
"""Kind of place -> Kubernetes labels, the first that a node has counts."""
LABELS: NodeLabels = {
    "leaf": (
        "network.topology.nvidia.com/leaf",
        "fabric.topograph.run/tier-0",
        "backend.coreweave.cloud/leafgroup",
        "ib.coreweave.cloud/leafgroup",
        "topology.k8s.aws/network-node-layer-4",
        "topology.k8s.aws/network-node-layer-3",
        "oci.oraclecloud.com/rdma.local_block_id",
        "cloud.google.com/gce-topology-subblock",
        "cloud.google.com/gce-topology-block",
        "network.topology.kubernetes.io/block",
    ),
    "rack": (
        "topology.kubernetes.io/rack",
        "cloud.provider.com/topology-rack",
        "node.coreweave.cloud/rack",
        "ds.coreweave.com/nvlink.domain",
        "topology.k8s.aws/ultraserver-id",
        "oci.oraclecloud.com/host.gpu_memory_fabric_id",
        "cloud.google.com/gce-topology-subblock",
        "network.topology.kubernetes.io/accelerator",
        "accelerator.topograph.run/domain",
    ),
}
"""Leaf: switches that the nodes share. NVIDIA Topograph ("Topograph Node Labels and Annotations":
leaf, since 1.0 tier-0); CoreWeave ("InfiniBand and RoCE labels": the leaf switches that serve a
common set of nodes); AWS ("Place distributed AI/ML workloads with network topology labels", EKS
user guide: layer 3, of some instances layer 4, is the bottom one); Oracle (OKE with RDMA networks:
local block); Google Cloud (GKE, topology-aware scheduling: hosts of a sub-block share their
switches; a block is several, used where nothing narrower is); Kubernetes (KEP-4962: rack-level
switches connecting hosts in one or more racks as a block). Rack: what its and Kueue's examples
write, CoreWeave's rack, and what is one with a rack of multi-node NVLink (GB200 NVL72): the NVLink
domain of CoreWeave, AWS (UltraServer), Oracle (GPU memory fabric), Google (sub-block), KEP-4962 and
Topograph (accelerator)."""
_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
"""What Kubernetes lets stand in a label (documentation, labels: at most 63 characters)."""
LOOK_BACK = 3600.0
"""Seconds before the end in which the labels were reported last."""


def with_own(words: Sequence[str]) -> NodeLabels:
    """LABELS, with `KIND=LABEL` words before them.

    Raises:
        RequestError: A word is not that.
    """
    found = {kind: list(names) for kind, names in LABELS.items()}
    for word in reversed(words):
        kind, _, label = word.partition("=")
        if kind not in KINDS or not label:
            raise RequestError(
                f"--node-label {word!r} must be KIND=LABEL, KIND one of {', '.join(KINDS)}"
            )
        found.setdefault(kind, []).insert(0, label)
    return found


def places(connection: "Connection", end: float, labels: NodeLabels = LABELS) -> Places:
    """Where the nodes of a cluster stand; nothing where nobody reports.

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
    found, refused = read_labels((told for told, _ in connection.instant(query, end)), names)
    if refused:
        LOG.warning(
            "%d node labels hold what no label can (as %s); they are not read",
            refused.total(), next(iter(refused)),
        )  # fmt: skip
    return found


def read_labels(
    series: Iterable[Mapping[str, str]], names: NodeLabels
) -> tuple[Places, Counter[str]]:
    """Where nodes stand by the labels of `kube_node_labels`.

    Args:
        series: Labels of a series, one a node.
        names: Kind of place -> labels as kube-state-metrics writes them.

    Returns:
        The places; and what was not understood, by label.
    """
    found: dict[str, dict[str, str]] = {}
    refused: Counter[str] = Counter()
    for told in series:
        node = told.get("exported_node") or told.get("node", "")
        for kind, each in names.items():
            refused.update(one for one in each if told.get(one) and not _VALUE.fullmatch(told[one]))
            # The first label that a node has: where that is damaged, another means another place.
            value = next((told[one] for one in each if told.get(one)), None)
            if node and value is not None and _VALUE.fullmatch(value):
                found.setdefault(node, {})[kind] = value
    return found, refused


def series_label(label: str) -> str:
    """How kube-state-metrics writes a Kubernetes label: `label_` and what Prometheus allows.

    kube-state-metrics internal/store/utils.go: other characters become `_`, camel case snake case.
    """
    allowed = re.sub(r"[^a-zA-Z0-9_]", "_", label)
    return "label_" + re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", allowed).lower()


POD_METRIC = "kube_pod_labels"
RUN, TEAM = series_label(RUN_LABEL), series_label(TEAM_LABEL)
LABELS_KEY = "labels"
"""In `Run.meta`, as in run.json of an archive: whose the run is, under `team`."""


def teams_query(seconds: float, run: str = "") -> str:
    """Which runs had pods of which teams.

    Args:
        seconds: Before the moment that is asked for, LOOK_BACK at least: pods may go before their
            run's last sample.
        run: Empty = all.
    """
    told = series(POD_METRIC, f'{TEAM}!=""', **({RUN: run} if run else {}))
    return f"count by ({RUN}, {TEAM}) (last_over_time({told}[{lasting(max(seconds, LOOK_BACK))}]))"


def read_teams(answer: Iterable[tuple[Mapping[str, str], float]]) -> Mapping[str, str]:
    """Run -> team, of the answer to `teams_query`; a run whose pods name two teams has none."""
    found: dict[str, set[str]] = {}
    for labels, _ in answer:
        if labels.get(RUN) and labels.get(TEAM):
            found.setdefault(labels[RUN], set()).add(labels[TEAM])
    return {run: next(iter(teams)) for run, teams in found.items() if len(teams) == 1}


def labels_of(answer: Iterable[tuple[Mapping[str, str], float]], run: str) -> Mapping[str, object]:
    """What `Run.meta` gains by the answer to `teams_query`; nothing where nobody names one team."""
    team = read_teams(answer).get(run)
    return {} if team is None else {LABELS_KEY: {"team": team}}
