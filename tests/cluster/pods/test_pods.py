"""The chart and a launched run on nodes that run containers: what a user does on the first day."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from collector.contract.kubernetes import HEALTHY, ROLE_LABEL, RUN_LABEL, Family
from tests.cluster.mpijob_crd import CRD
from tests.cluster.pods.real_nodes import RealNodes, is_ready, page, series, until
from tests.cluster.pods.release import (
    COLLECTORS,
    NAMESPACE,
    RUNS,
    Prometheus,
    all_ready,
    install,
    left,
    shared_folder,
    uninstall,
)
from tests.cluster.pods.running_operator import RunningMpiOperator

pytestmark = [
    pytest.mark.pods,
    # The control plane's certificate is its own.
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
PATIENCE = 240.0
"""Of a machine on which others work, too; goals are measured by `benchmarks pods`."""


@pytest.fixture(scope="module")
def release(nodes: RealNodes) -> Iterator[RealNodes]:
    """The release, all of it Ready."""
    install(nodes)
    until(lambda: all_ready(nodes), PATIENCE)
    yield nodes
    uninstall(nodes)
    until(lambda: [] == left(nodes), PATIENCE)


@pytest.fixture(scope="module")
def prometheus(release: RealNodes) -> Iterator[Prometheus]:
    with Prometheus(release) as made:
        yield made


@pytest.fixture(scope="module")
def operator(release: RealNodes) -> Iterator[None]:
    """MPIJobs become pods."""
    definitions = client.ApiextensionsV1Api(release.api)
    definitions.create_custom_resource_definition(CRD)
    with RunningMpiOperator(release.api, RUNS):
        yield
    definitions.delete_custom_resource_definition(CRD["metadata"]["name"])


@contextlib.contextmanager
def launched(nodes: RealNodes, out: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """`lockstep run --launcher kubernetes` with two nodes, until the block ends."""
    command = [
        sys.executable, "-m", "lockstep", "run", "gpt", "--nodes=2", "--launcher=kubernetes",
        "--image=localhost/lockstep-workloads:0.1.0", f"--kubeconfig={nodes.kubeconfig}",
        f"--out={out}", "-ojson", *words,
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        try:
            yield run
        finally:
            if run.poll() is None:
                run.terminate()
            run.communicate(timeout=120)


def workers(nodes: RealNodes) -> dict[int, str]:
    """Rank -> node, of the worker pods that run."""
    found = nodes.core.list_namespaced_pod(
        RUNS, label_selector=f"{ROLE_LABEL}=worker", field_selector="status.phase=Running"
    ).items
    return {int(pod.metadata.name.rpartition("-")[2]): pod.spec.node_name for pod in found}


def run_of(nodes: RealNodes) -> str:
    return str(nodes.pods(RUNS)[0].metadata.labels[RUN_LABEL])


def conditions(nodes: RealNodes, node: str) -> dict[str, str]:
    """Those of ours."""
    told = nodes.core.read_node(node).status.conditions
    return {one.type: one.status for one in told if one.type in (HEALTHY, *Family)}


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


@pytest.mark.sweep(sample=0)  # at night, as what follows: CI has five minutes for pods
def test_a_slow_rank_in_a_pod_becomes_a_finding_an_alert_a_report_and_a_condition_of_its_node(
    prometheus: Prometheus, operator: None, release: RealNodes, tmp_path: Path
):
    words = ("--steps=2600", "--fault=compute:rank=1,factor=2,from=1200", "--timeout=900")
    with launched(release, tmp_path / "run", *words) as run:
        until(lambda: len(workers(release)) == 2 or run.poll() is not None, PATIENCE)
        assert run.poll() is None, run.communicate()
        culprit, name = workers(release)[1], run_of(release)

        def found() -> list[str]:
            active = prometheus.ask(f'lockstep_finding_active{{run="{name}"}} == 1')
            return [labels["node"] for labels, _ in active]

        until(lambda: found() or run.poll() is not None, 2 * PATIENCE)
        assert [culprit] == found(), run.communicate()
        told = {
            labels["node"] for labels, _ in prometheus.ask(f'lockstep_rank_info{{run="{name}"}}')
        }
        assert set(release.names) == told
        alert = f'ALERTS{{alertname="LockstepFinding",alertstate="firing",run="{name}"}}'
        until(lambda: prometheus.ask(alert), PATIENCE)
        until(lambda: "False" == conditions(release, culprit).get(HEALTHY), PATIENCE)
        assert "True" == conditions(release, culprit)[Family.STRAGGLER]
        [other] = set(release.names) - {culprit}
        assert "False" != conditions(release, other).get(HEALTHY)
        reports = release.kubeconfig.parent / "findings"
        until(lambda: list(reports.rglob("report.html")), PATIENCE)
        said, errors = run.communicate(timeout=600)
    answer = json.loads(said)
    archive = shared_folder(release) / name

    assert 0 == run.returncode, errors
    assert "finished" == answer["ending"]
    [fault] = json.loads((archive / "truth.json").read_text())["faults"]
    assert culprit == fault["node"]  # and not the pod's host name
    until(lambda: not release.pods(RUNS), PATIENCE)


@pytest.mark.sweep(sample=0)
def test_an_image_that_is_not_there_is_said_and_nothing_is_left(
    operator: None, release: RealNodes, tmp_path: Path
):
    words = ("--steps=10", "--start-timeout=120", "--image=localhost/lockstep-workloads:9.9.9")
    with launched(release, tmp_path / "run", *words) as run:
        _, errors = run.communicate(timeout=300)

    assert 69 == run.returncode
    assert "localhost/lockstep-workloads:9.9.9" in errors
    until(lambda: not release.pods(RUNS), PATIENCE)


@pytest.mark.sweep(sample=0)
def test_a_node_that_loses_its_power_is_told_and_comes_back(
    prometheus: Prometheus, release: RealNodes
):
    victim = release.names[1]
    until(lambda: len(prometheus.ask('up{job="lockstep-collector"} == 1')) == 2, PATIENCE)
    release.power_off(victim)
    try:
        down = 'up{job="lockstep-collector"} == 0'
        until(lambda: [victim] == [labels["node"] for labels, _ in prometheus.ask(down)], PATIENCE)
        until(lambda: victim not in release.ready(), PATIENCE)
    finally:
        release.power_on(victim)
    until(lambda: len([p for p in release.pods(COLLECTORS, "collector") if is_ready(p)]) == 2,
          PATIENCE)  # fmt: skip
