"""The chart on nodes that run containers: what a user sees on the first day."""

import pytest

from tests.cluster.pods.real_nodes import PATIENCE, RealNodes, page, series, until
from tests.cluster.pods.release import COLLECTORS, NAME, NAMESPACE, Prometheus
from tests.cluster.pods.saying import told

pytestmark = [
    pytest.mark.pods,
    # The control plane's certificate is its own.
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]


def test_every_part_is_ready_on_the_node_where_it_belongs(release: RealNodes):
    collectors = release.pods(COLLECTORS, "collector")

    assert set(release.names) == {pod.spec.node_name for pod in collectors}
    for pod in collectors:
        told = page(pod, 9410)
        [(labels, _)] = series(told, "lockstep_node_info")
        assert pod.spec.node_name == labels["hostname"]  # and not the pod's own
        # The node's device by the node's sysfs, not the pod's of the same name.
        devices = {labels["device"] for labels, _ in series(told, "lockstep_net_up")}
        assert "eth0" in devices
        assert [] == [
            value for labels, value in series(told, "lockstep_source_errors_total")
            if labels["source"] in ("netdev", "tcp", "allocation") and value
        ]  # fmt: skip


def test_prometheus_in_a_pod_scrapes_every_part(prometheus: Prometheus, release: RealNodes):
    until(lambda: len(prometheus.ask("up == 1")) == len(release.names) + 2, PATIENCE)
    nodes = {labels["node"] for labels, _ in prometheus.ask('up{job="lockstep-collector"} == 1')}

    assert set(release.names) == nodes


def test_the_dashboard_answers_with_its_page(release: RealNodes):
    [pod] = release.pods(NAMESPACE, "dashboard")

    assert "<title>" in page(pod, 8501, "/")


@pytest.mark.sweep(sample=0)
def test_a_release_that_runs_passes_helm_test(release: RealNodes):
    nodes = release.helm(NAMESPACE)

    nodes.test(NAME, timeout=300)  # or it raises

    assert [] == release.pods(NAMESPACE, "test")
    assert [] == [found for found in told(release).values() if "ready" not in found]
