"""The chart on nodes that run containers: volumes, the release, and a Prometheus in a pod."""

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from helm_python import HelmError
from kubernetes.client.exceptions import ApiException

from tests.cluster.pods.real_nodes import REGISTRY, RealNodes, is_ready, until
from tests.deploy.chart.chart import CHART

NAME = NAMESPACE = "lockstep"
COLLECTORS, RUNS, MONITORING = "lockstep-collector", "lockstep-runs", "monitoring"
SCRAPE_SECONDS = 1
"""A stream is judged once it has 40 samples (analyzer/hardware/sequential_test/baseline.py)."""
JOBS = {"collector": "collector", "watch": "analyzer", "nodes": "nodes"}
PORTS = {"collector": 9410, "watch": 9411, "nodes": 9413}
VALUES: Mapping[str, Any] = {
    "images": {"registry": REGISTRY},
    "prometheus": {"url": f"http://prometheus.{MONITORING}.svc:9090"},
    "collector": {"maxUnavailable": "100%"},
    "watch": {
        "interval": SCRAPE_SECONDS, "alertmanagers": [],
        "persistence": {"enabled": True, "size": "1Gi"},
    },
    "nodes": {"enabled": True, "dryRun": False},
    "runs": {"enabled": True},
    "monitoring": {"operator": False, "interval": f"{SCRAPE_SECONDS}s"},
}  # fmt: skip


def volumes(nodes: RealNodes) -> None:
    """What a provisioner would make: for findings on a node's disk, for runs on a shared folder.

    Findings by `local`, since fsGroup is not applied to a hostPath.
    """
    shared = nodes.kubeconfig.parent / "shared"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o1777)
    findings = nodes.kubeconfig.parent / "findings"
    findings.mkdir(exist_ok=True)
    place = {"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [nodes.names[0]]}
    ]}  # fmt: skip
    for name, claim, spec in (
        ("findings", {"namespace": NAMESPACE, "name": "lockstep-findings"}, {
            "accessModes": ["ReadWriteOnce"], "local": {"path": str(findings)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [place]}},
        }),
        ("runs", {"namespace": RUNS, "name": "lockstep-runs"}, {
            "accessModes": ["ReadWriteMany"], "hostPath": {"path": str(shared)},
        }),
    ):  # fmt: skip
        # One that was bound before holds its dead claim's uid.
        with suppress(ApiException):
            nodes.core.delete_persistent_volume(name)
            until(lambda one=name: one not in _names(nodes.core.list_persistent_volume()), 30)
        nodes.core.create_persistent_volume({
            "metadata": {"name": name},
            "spec": {"capacity": {"storage": "100Gi"}, "claimRef": claim, **spec},
        })  # fmt: skip


def install(nodes: RealNodes, values: Mapping[str, Any] = VALUES) -> None:
    """As `helm install --create-namespace`; it waits for no pod."""
    volumes(nodes)
    nodes.helm(NAMESPACE).install(str(CHART), NAME, dict(values), create_namespace=True, timeout=60)


def as_wanted(nodes: RealNodes) -> None:
    """As `helm upgrade --install`, with the usual values."""
    try:
        nodes.helm(NAMESPACE).status(NAME)
    except HelmError:
        install(nodes)
    else:
        upgrade(nodes, {})


def upgrade(nodes: RealNodes, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """As `helm upgrade` with other values of some parts."""
    values = {**VALUES, **{part: {**VALUES.get(part, {}), **changes[part]} for part in changes}}
    nodes.helm(NAMESPACE).upgrade(str(CHART), NAME, values, timeout=60)


def rollback(nodes: RealNodes) -> None:
    """As `helm rollback`."""
    nodes.helm(NAMESPACE).rollback(NAME, timeout=60)


def uninstall(nodes: RealNodes) -> None:
    """As `helm uninstall`."""
    nodes.helm(NAMESPACE).uninstall(NAME, timeout=60, ignore_not_found=True)


def all_ready(nodes: RealNodes, *, collectors: int = 2) -> bool:
    """Whether every pod of the release is Ready, a collector on each node."""
    found = nodes.pods(COLLECTORS, "collector")
    others = [nodes.pods(NAMESPACE, part) for part in ("watch", "dashboard", "nodes")]
    return (
        len(found) == collectors
        and all(len(one) == 1 for one in others)
        and all(map(is_ready, [*found, *(pod for one in others for pod in one)]))
    )


def settled(nodes: RealNodes) -> bool:
    """Whether all pods are Ready and none of an earlier revision is there."""
    namespaces = (COLLECTORS, NAMESPACE)
    going = [
        pod
        for namespace in namespaces
        for pod in nodes.core.list_namespaced_pod(namespace).items
        if pod.metadata.deletion_timestamp
    ]
    return not going and all_ready(nodes)


class Prometheus:
    """Debian's Prometheus in a pod, with the release's rules.

    Its targets are written down: this build finds none by Kubernetes (no kubernetes_sd_configs).
    Who replaces pods calls `follow`.
    """

    def __init__(self, nodes: RealNodes, seconds: int = SCRAPE_SECONDS) -> None:
        self._nodes = nodes
        self._seconds = seconds

    def __enter__(self) -> "Prometheus":
        core = self._nodes.core
        label = {"kubernetes.io/metadata.name": MONITORING}
        core.create_namespace({"metadata": {"name": MONITORING, "labels": label}})
        told = core.read_namespaced_config_map("lockstep-prometheus", NAMESPACE).data
        rules = {name: text for name, text in told.items() if name.endswith(".rules.yml")}
        core.create_namespaced_config_map(MONITORING, {
            "metadata": {"name": "prometheus"},
            "data": {**rules, "prometheus.yml": json.dumps(self._configuration())},
        })  # fmt: skip
        core.create_namespaced_service(MONITORING, {
            "metadata": {"name": "prometheus"},
            "spec": {"selector": {"app": "prometheus"}, "ports": [{"port": 9090}]},
        })  # fmt: skip
        until(lambda: "default" in _names(core.list_namespaced_service_account(MONITORING)))
        core.create_namespaced_pod(MONITORING, self._pod())
        until(lambda: all(map(is_ready, self._nodes.pods(MONITORING))), 90)
        self.follow()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ApiException):
            self._nodes.core.delete_namespace(MONITORING)
        if not self._nodes.stay:
            return  # it goes with them
        until(lambda: MONITORING not in _names(self._nodes.core.list_namespace()), 240)

    def ask(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series, as it is now."""
        [pod] = self._nodes.pods(MONITORING)
        words = urllib.parse.urlencode({"query": query})
        url = f"http://{pod.status.pod_ip}:9090/api/v1/query?{words}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            found = json.load(answer)["data"]["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def follow(self) -> None:
        """Scrape the pods of now."""
        [own] = self._nodes.pods(MONITORING)
        mounted = f"kubelet/pods/{own.metadata.uid}/volumes/kubernetes.io~empty-dir/data"
        folder = self._nodes.kubeconfig.parent / own.spec.node_name / mounted / "targets"
        folder.mkdir(exist_ok=True)
        for part, port in PORTS.items():
            home = COLLECTORS if part == "collector" else NAMESPACE
            targets = []
            for pod in self._nodes.pods(home, part):
                node = pod.spec.node_name
                labels = {"node": node, "instance": node} if part == "collector" else {}
                targets.append({"targets": [f"{pod.status.pod_ip}:{port}"], "labels": labels})
            new = folder / f"{part}.new"
            new.write_text(json.dumps(targets))
            new.rename(folder / f"{part}.json")

    def _configuration(self) -> dict[str, Any]:
        jobs = [
            {"job_name": f"lockstep-{job}", "file_sd_configs": [
                {"files": [f"/data/targets/{part}.json"], "refresh_interval": "1s"}
            ]}
            for part, job in JOBS.items()
        ]  # fmt: skip
        seconds = f"{self._seconds}s"
        return {
            "global": {"scrape_interval": seconds, "evaluation_interval": seconds},
            "rule_files": ["/etc/prometheus/*.rules.yml"], "scrape_configs": jobs,
        }  # fmt: skip

    def _pod(self) -> dict[str, Any]:
        return {
            "metadata": {"name": "prometheus", "labels": {"app": "prometheus"}},
            "spec": {
                "terminationGracePeriodSeconds": 2,
                "nodeName": self._nodes.names[0],  # the other one may lose its power
                "securityContext": {"runAsUser": 65534, "fsGroup": 65534},
                "containers": [{
                    "name": "prometheus", "image": f"{REGISTRY}/prometheus:1",
                    "args": ["--config.file=/etc/prometheus/prometheus.yml",
                             "--storage.tsdb.path=/data"],
                    "readinessProbe": {"httpGet": {"path": "/-/ready", "port": 9090},
                                       "periodSeconds": 1},
                    # Without these it starves beside ranks, and nobody is scraped.
                    "resources": {"requests": {"cpu": "400m", "memory": "256Mi"}},
                    "volumeMounts": [{"name": "config", "mountPath": "/etc/prometheus"},
                                     {"name": "data", "mountPath": "/data"}],
                }],
                "volumes": [{"name": "config", "configMap": {"name": "prometheus"}},
                            {"name": "data", "emptyDir": {}}],
            },
        }  # fmt: skip


def left(nodes: RealNodes) -> list[str]:
    """What there is of the release: namespaces, pods and cluster-wide objects."""
    from kubernetes import client

    roles = client.RbacAuthorizationV1Api(nodes.api)
    chosen = {"label_selector": "app.kubernetes.io/name=lockstep"}
    found = [
        *nodes.core.list_pod_for_all_namespaces(**chosen).items,
        *nodes.core.list_config_map_for_all_namespaces(**chosen).items,
        *nodes.core.list_service_for_all_namespaces(**chosen).items,
        *nodes.core.list_secret_for_all_namespaces(**chosen).items,
        *nodes.core.list_namespace(**chosen).items,
        *nodes.core.list_persistent_volume_claim_for_all_namespaces(**chosen).items,
        *roles.list_cluster_role(**chosen).items,
        *roles.list_cluster_role_binding(**chosen).items,
    ]
    return sorted(one.metadata.name for one in found)


def _names(found: Any) -> list[str]:
    return [one.metadata.name for one in found.items]


def shared_folder(nodes: RealNodes) -> Path:
    """The claim of runs, from outside."""
    return nodes.kubeconfig.parent / "shared"


def findings_folder(nodes: RealNodes) -> Path:
    """The claim of findings, from outside."""
    return nodes.kubeconfig.parent / "findings"
