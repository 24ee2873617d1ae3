"""A release that is changed and starved."""

import pytest

from tests.cluster.pods.device_plugin import RESOURCE, device_plugin
from tests.cluster.pods.real_nodes import PATIENCE, REGISTRY, RealNodes, page, series, until
from tests.cluster.pods.release import (
    COLLECTORS,
    Prometheus,
    put_back,
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
