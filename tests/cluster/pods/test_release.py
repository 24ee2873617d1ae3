"""A release that is changed, starved, and taken away."""

import contextlib
import subprocess
import sys

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.cluster.pods.device_plugin import RESOURCE, device_plugin
from tests.cluster.pods.real_nodes import PATIENCE, REGISTRY, RealNodes, page, series, until
from tests.cluster.pods.release import (
    COLLECTORS,
    NAMESPACE,
    Prometheus,
    all_ready,
    install,
    left,
    put_back,
    uninstall,
    upgrade,
)

pytestmark = [
    pytest.mark.pods,
    pytest.mark.sweep(sample=0),  # at night: every change replaces pods
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
SYSCTL, WANTED = "net.core.somaxconn", "8191"
UUIDS = ("GPU-00000000-0000-4000-8000-000000000001", "GPU-00000000-0000-4000-8000-000000000002")


def sysctl(nodes: RealNodes, node: str) -> str:
    return nodes.inside(node, "cat", f"/proc/sys/{SYSCTL.replace('.', '/')}").strip()


def test_tuning_is_in_force_while_the_release_has_it_and_a_rollback_puts_it_back(
    release: RealNodes,
):
    before = {node: sysctl(release, node) for node in release.names}
    assert WANTED not in before.values()
    with put_back(release):
        upgrade(release, {"nodeTuning": {"enabled": True, "sysctls": {SYSCTL: WANTED}}})
        until(lambda: {WANTED} == {sysctl(release, node) for node in release.names}, PATIENCE)

    until(lambda: before == {node: sysctl(release, node) for node in release.names}, PATIENCE)
    assert [] == release.pods(COLLECTORS, "tuning")


def test_a_collector_that_is_killed_for_memory_says_so_and_accuses_nobody(
    prometheus: Prometheus, release: RealNodes
):
    def killed() -> set[str]:
        return {
            pod.spec.node_name
            for pod in release.pods(COLLECTORS, "collector")
            for one in pod.status.container_statuses or ()
            for state in (one.state.terminated, one.last_state.terminated)
            if one.name == "collector" and state and state.reason == "OOMKilled"
        }

    with put_back(release):
        upgrade(release, {"collector": {
            "maxUnavailable": "100%",
            "resources": {"requests": {"memory": "16Mi"}, "limits": {"memory": "24Mi"}},
        }})  # fmt: skip
        until(lambda: set(release.names) == killed(), PATIENCE)
        # What is not seen is unknown, and no node's fault.
        assert [] == prometheus.ask("lockstep_finding_active == 1")


def test_a_kubelet_says_which_container_has_which_gpu(release: RealNodes):
    node = release.names[0]
    plugins = release.kubeconfig.parent / node / "kubelet" / "device-plugins"

    def given() -> set[tuple[str, str, str]]:
        return {
            (labels["pod"], labels["container"], labels["uuid"])
            for pod in release.pods(COLLECTORS, "collector")
            if pod.spec.node_name == node
            for labels, _ in series(page(pod, 9410), "lockstep_gpu_allocation_info")
        }

    with put_back(release), device_plugin(plugins, UUIDS):
        upgrade(release, {"collector": {"maxUnavailable": "100%", "podResources": True}})
        until(
            lambda: "2" == (release.core.read_node(node).status.allocatable or {}).get(RESOURCE),
            PATIENCE,
        )
        release.core.create_namespaced_pod("default", {
            "metadata": {"name": "trains"},
            "spec": {
                "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False,
                "containers": [{"name": "ranks", "image": f"{REGISTRY}/pause:1",
                                "resources": {"limits": {RESOURCE: "2"}}}],
            },
        })  # fmt: skip
        try:
            wanted = {("trains", "ranks", uuid) for uuid in UUIDS}
            until(lambda: given() == wanted, PATIENCE)
        finally:
            release.core.delete_namespaced_pod("trains", "default")
        until(lambda: given() == set(), PATIENCE)


def test_uninstall_leaves_nothing(release: RealNodes):
    # As the release's notes say it: what it wrote on nodes is taken off first.
    apps = client.AppsV1Api(release.api)
    apps.patch_namespaced_deployment("lockstep-nodes", NAMESPACE, {"spec": {"replicas": 0}})
    until(lambda: not release.pods(NAMESPACE, "nodes"), PATIENCE)
    subprocess.run(
        [sys.executable, "-m", "lockstep", "nodes", "--remove", f"--namespace={NAMESPACE}",
         f"--kubeconfig={release.kubeconfig}"],
        check=True, timeout=120,
    )  # fmt: skip
    uninstall(release)
    try:
        until(lambda: [] == left(release), PATIENCE)
        for namespace in (COLLECTORS, NAMESPACE):
            with contextlib.suppress(ApiException):
                assert [] == release.core.list_namespaced_pod(namespace).items
        ours = [
            one.type
            for node in release.core.list_node().items
            for one in node.status.conditions
            if "ockstep" in one.type
        ]
        assert [] == ours
    finally:
        install(release)
        until(lambda: all_ready(release), PATIENCE)
