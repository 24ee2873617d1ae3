"""A release that is changed by one upgrade, in several places, and rolled back."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from tests.cluster.pods.conftest import begin
from tests.cluster.pods.device_plugin import RESOURCE, device_plugin
from tests.cluster.pods.real_nodes import (
    PATIENCE,
    REGISTRY,
    RealNodes,
    is_ready,
    page,
    series,
    until,
)
from tests.cluster.pods.release import (
    COLLECTORS,
    NAMESPACE,
    Prometheus,
    findings_folder,
    rollback,
    settled,
    upgrade,
)
from tests.cluster.pods.runs import LaunchedRun
from tests.cluster.pods.trouble import small_volumes

pytestmark = [
    pytest.mark.pods,
    pytest.mark.sweep(sample=0),  # at night: every change replaces pods
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
SYSCTL, WANTED = "net.core.somaxconn", "8191"
UUIDS = ("GPU-00000000-0000-4000-8000-000000000001", "GPU-00000000-0000-4000-8000-000000000002")
RINGS = "/run/lockstep"


@pytest.fixture(scope="module", autouse=True)
def meanwhile(request: pytest.FixtureRequest, release: RealNodes) -> None:
    """The cells of a benchmark take no notice of the release."""
    begin(request, "benchmark")


def sysctl(nodes: RealNodes) -> dict[str, str]:
    name = f"/proc/sys/{SYSCTL.replace('.', '/')}"
    return {node: nodes.inside(node, "cat", name).strip() for node in nodes.names}


def folders(nodes: RealNodes) -> set[str]:
    """What is kept for pods on all nodes."""
    return {f"{node}/{name}" for node in nodes.names
            for name in nodes.inside(node, "ls", RINGS).split()}  # fmt: skip


@pytest.fixture(scope="module")
def of_ended_pods(slow_run: LaunchedRun, release: RealNodes) -> set[str]:
    """Their folders, two days old."""
    slow_run.communicate(timeout=900)
    ours = {f"{node}/{uid}" for uid, node in slow_run.pods.items()}
    assert set(release.names) == set(slow_run.pods.values())
    assert ours <= folders(release)
    for folder in ours:
        node, _, name = folder.partition("/")
        release.inside(
            node, "find", f"{RINGS}/{name}", "-exec", "touch", "-d", "2 days ago", "{}", "+"
        )
    return ours


@pytest.fixture(scope="module")
def before(release: RealNodes) -> dict[str, str]:
    """The setting of each node, as it was."""
    return sysctl(release)


@pytest.fixture(scope="module")
def changed(
    release: RealNodes, before: dict[str, str], of_ended_pods: set[str]
) -> Iterator[set[str]]:
    """The release with tuning, another cleaner and the kubelet's word; what was kept for others."""
    young = folders(release) - of_ended_pods
    plugins = release.kubeconfig.parent / release.names[0] / "kubelet" / "device-plugins"
    with device_plugin(plugins, UUIDS):
        upgrade(release, {
            "collector": {"maxUnavailable": "100%", "podResources": True,
                          "cleaner": {"age": "25h"}},
            "nodeTuning": {"enabled": True, "sysctls": {SYSCTL: WANTED}},
        })  # fmt: skip
        yield young


def test_tuning_is_in_force_while_the_release_has_it(
    changed: set[str], before: dict[str, str], release: RealNodes
):
    assert WANTED not in before.values()
    until(lambda: {WANTED} == set(sysctl(release).values()), PATIENCE)


def test_what_ended_pods_left_on_nodes_is_cleaned_by_its_age(
    changed: set[str], of_ended_pods: set[str], release: RealNodes
):
    until(lambda: not of_ended_pods & folders(release), PATIENCE)
    assert changed <= folders(release)


def test_a_kubelet_says_which_container_has_which_gpu(changed: set[str], release: RealNodes):
    node = release.names[0]

    def given() -> set[tuple[str, str, str]]:
        return {
            (labels["pod"], labels["container"], labels["uuid"])
            for pod in release.pods(COLLECTORS, "collector")
            if pod.spec.node_name == node
            for labels, _ in series(page(pod, 9410), "lockstep_gpu_allocation_info")
        }

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


def test_a_rollback_puts_back_what_was_tuned(
    changed: set[str], before: dict[str, str], release: RealNodes
):
    rollback(release)
    until(lambda: settled(release), PATIENCE)

    until(lambda: before == sysctl(release), PATIENCE)
    assert [] == release.pods(COLLECTORS, "tuning")


def scaled(nodes: RealNodes, replicas: int) -> None:
    """So many pods of watch, all Ready."""
    apps = client.AppsV1Api(nodes.api)
    change = {"spec": {"replicas": replicas}}
    apps.patch_namespaced_deployment("lockstep-watch", NAMESPACE, change)
    chosen = {"label_selector": "app.kubernetes.io/component=watch"}

    def there() -> bool:
        # Also one that still ends: its mounts go last, and take away what is mounted over them.
        pods = nodes.core.list_namespaced_pod(NAMESPACE, **chosen).items
        return len(pods) == replicas and all(map(is_ready, pods))

    until(there, PATIENCE)


def prometheus_is_up(watch: Any) -> bool:
    """By the page of watch."""
    return [1.0] == [
        value for _, value in series(page(watch, 9411), "lockstep_analyzer_prometheus_up")
    ]


def test_a_full_claim_of_findings_is_said_and_watch_goes_on(
    prometheus: Prometheus, release: RealNodes
):
    scaled(release, 0)
    try:
        with small_volumes(release, (release.names[0], findings_folder(release))) as fill:
            scaled(release, 1)
            [pod] = release.pods(NAMESPACE, "watch")
            until(lambda: prometheus_is_up(pod), PATIENCE)
            fill()
            failures = "lockstep_analyzer_state_write_failures_total"
            until(
                lambda: sum(value for _, value in series(page(pod, 9411), failures)) > 0, PATIENCE
            )
            said = release.log(pod, "watch").splitlines()
            [full] = [line for line in said if "No space left" in line]  # once, not each second
            assert "the state cannot be saved in /var/lib/lockstep/state" in full
            assert is_ready(release.pods(NAMESPACE, "watch")[0])
            scaled(release, 0)
    finally:
        scaled(release, 1)
