"""A release whose registry refuses and whose collectors have no memory: nothing comes after it."""

from collections.abc import Iterator

import pytest

from tests.cluster.pods.real_nodes import PATIENCE, RealNodes, until
from tests.cluster.pods.release import COLLECTORS, Prometheus, upgrade
from tests.cluster.pods.saying import by_helm, events, missed
from tests.cluster.pods.trouble import REFUSING, refusing_registry

pytestmark = [
    pytest.mark.pods,
    pytest.mark.sweep(sample=0),  # at night: every change replaces pods
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]


def findings(prometheus: Prometheus) -> set[str]:
    """Those that are open."""
    return {str(sorted(labels.items()))
            for labels, _ in prometheus.ask("lockstep_finding_active == 1")}  # fmt: skip


@pytest.fixture(scope="module")
def spoiled(running_prometheus: Prometheus, release: RealNodes) -> Iterator[set[str]]:
    """The release, until it is uninstalled; what was found before."""
    before = findings(running_prometheus)
    with refusing_registry(release, missing="dashboard"):
        upgrade(release, {
            "images": {"registry": REFUSING}, "helmTest": {"waitSeconds": 5},
            "collector": {
                "maxUnavailable": "100%",
                "resources": {"requests": {"memory": "16Mi"}, "limits": {"memory": "24Mi"}},
            },
        })  # fmt: skip
        yield before


def test_a_collector_that_is_killed_for_memory_says_so_and_accuses_nobody(
    prometheus: Prometheus, spoiled: set[str], release: RealNodes
):
    def killed() -> set[str]:
        return {
            pod.spec.node_name
            for pod in release.pods(COLLECTORS, "collector")
            for one in pod.status.container_statuses or ()
            for state in (one.state.terminated, one.last_state.terminated)
            if one.name == "collector" and state and state.reason == "OOMKilled"
        }

    until(lambda: set(release.names) == killed(), PATIENCE)
    # What is not seen is unknown, and no node's fault.
    assert findings(prometheus) <= spoiled


def test_a_registry_that_refuses_is_told_by_pods_doctor_and_helm_test(
    spoiled: set[str], release: RealNodes
):
    wanted = {
        "lockstep-dashboard": f"the registry refuses image {REFUSING}/lockstep-dashboard:0.2.0"
    }
    until(lambda: not missed(release, wanted), PATIENCE, lambda: missed(release, wanted))

    assert wanted["lockstep-dashboard"] in by_helm(release)
    assert "401 Unauthorized" in events(release)  # containerd's words
