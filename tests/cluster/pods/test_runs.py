"""Runs launched into pods, and what is told of them."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from collector.contract.kubernetes import HEALTHY, Family
from tests.cluster.pods.conftest import Launched
from tests.cluster.pods.real_nodes import PATIENCE, RealNodes, until
from tests.cluster.pods.release import (
    NAMESPACE,
    RUNS,
    Prometheus,
    findings_folder,
    rollback,
    settled,
    shared_folder,
    upgrade,
)
from tests.cluster.pods.runs import (
    LaunchedRun,
    accused,
    begun,
    conditions,
    launching,
    plain_jobs,
    pods_of,
    ranks,
)
from workloads.spec import Layout, RunSpec

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = [
    pytest.mark.pods,
    pytest.mark.sweep(sample=0),  # at night: runs take minutes
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
RINGS = "/run/lockstep"


def named(prometheus: Prometheus, run: str) -> set[str]:
    """Nodes that findings of the run name now; one of the run as a whole names none."""
    active = prometheus.ask(f'lockstep_finding_active{{run="{run}"}} == 1')
    return {labels["node"] for labels, _ in active if "node" in labels}


@pytest.fixture(scope="module")
def slow_run(
    running_prometheus: Prometheus,
    operator: None,
    release: RealNodes,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LaunchedRun]:
    """A run whose third rank is slow after a minute.

    Of four ranks: two have no majority, and the sequential test judges neither. It learns what is
    usual from 40 scrapes: what is slow before a minute has passed is usual to it. A step has a
    tenth of a second, and a fifth once it is slow.
    """
    running_prometheus.follow()
    words = ("--ranks-per-node=2", "--device-seconds=0.1", "--steps=900",
             "--fault=compute:rank=2,factor=2,from=600", "--timeout=1500")  # fmt: skip
    with launching(release, tmp_path_factory.mktemp("slow") / "run", *words) as run:
        begun(release, run)
        yield run


def test_jobs_with_pods_of_their_own_are_on_the_pages_of_their_nodes(
    prometheus: Prometheus, release: RealNodes
):
    spec = RunSpec("gpt-20260101t000000-a1b2", "gpt", Layout(2, 1, 2), 300, 0)

    def phases() -> list[str]:
        return [pod.status.phase for pod in pods_of(release, spec.run)]

    with plain_jobs(release, spec):
        steps = f'lockstep_train_steps_total{{run="{spec.run}"}} > 50'
        until(lambda: len(prometheus.ask(steps)) == 2, PATIENCE, phases)
        told = prometheus.ask(f'lockstep_rank_info{{run="{spec.run}"}}')
        assert ranks(release, spec.run) == {
            int(labels["rank"]): labels["node"] for labels, _ in told
        }
        assert set() == named(prometheus, spec.run)
        until(lambda: ["Succeeded"] * 2 == phases(), PATIENCE, phases)
    until(lambda: not pods_of(release, spec.run), PATIENCE)


def test_a_run_in_a_restricted_namespace_keeps_its_rings_in_its_pods(
    operator: None, release: RealNodes, launched: Launched
):
    with launched("--steps=50", "--rings=pod") as run:
        begun(release, run)
        mounted = [volume for pod in pods_of(release, run.name) for volume in pod.spec.volumes]
        said, errors = run.communicate(timeout=300)

    assert 0 == run.returncode, errors
    assert "finished" == json.loads(said)["ending"]
    assert [] == [one.name for one in mounted if one.host_path]
    until(lambda: not pods_of(release, run.name), PATIENCE)


def test_a_slow_rank_becomes_a_finding_an_alert_a_report_and_a_condition_of_its_node(
    prometheus: Prometheus,
    release: RealNodes,
    slow_run: LaunchedRun,
    visitor: "BrowserContext",
):
    run, name = slow_run, slow_run.name
    culprit = ranks(release, name)[1]
    until(lambda: named(prometheus, name) or run.poll() is not None, 2 * PATIENCE)
    assert {culprit} == named(prometheus, name), run.communicate()
    told = prometheus.ask(f'lockstep_rank_info{{run="{name}"}}')
    assert set(release.names) == {labels["node"] for labels, _ in told}
    alert = f'ALERTS{{alertname="LockstepFinding",alertstate="firing",run="{name}"}}'
    until(lambda: prometheus.ask(alert), PATIENCE)
    until(lambda: "False" == conditions(release, culprit).get(HEALTHY), PATIENCE)
    assert "True" == conditions(release, culprit)[Family.STRAGGLER]
    [other] = set(release.names) - {culprit}
    assert [] == accused(release, other, name)

    [pod] = release.pods(NAMESPACE, "dashboard")
    seen = visitor.new_page()
    seen.goto(f"http://{pod.status.pod_ip}:8501/")
    seen.get_by_text(name).first.wait_for()
    assert 0 == seen.get_by_test_id("stException").count()
    seen.close()

    until(lambda: list(findings_folder(release).rglob("report.html")), PATIENCE)
    said, errors = run.communicate(timeout=900)

    assert 0 == run.returncode, errors
    assert "finished" == json.loads(said)["ending"]
    [fault] = json.loads((shared_folder(release) / name / "truth.json").read_text())["faults"]
    assert culprit == fault["node"]  # and not the pod's host name
    until(lambda: not pods_of(release, name), PATIENCE)


def test_what_ended_pods_left_on_nodes_is_cleaned_by_its_age(
    release: RealNodes, slow_run: LaunchedRun
):
    def folders() -> set[str]:
        return {
            f"{node}/{folder}"
            for node in release.names
            for folder in release.inside(node, "ls", RINGS).split()
        }

    slow_run.communicate(timeout=900)
    ours = {f"{node}/{uid}" for uid, node in slow_run.pods.items()}
    young = folders() - ours
    assert ours <= folders()
    assert set(release.names) == set(slow_run.pods.values())
    for folder in ours:
        node, _, name = folder.partition("/")
        release.inside(
            node, "find", f"{RINGS}/{name}", "-exec", "touch", "-d", "2 days ago", "{}", "+"
        )
    try:
        upgrade(release, {"collector": {"maxUnavailable": "100%", "cleaner": {"age": "25h"}}})
        until(lambda: not ours & folders(), PATIENCE)
        assert young <= folders()
    finally:
        rollback(release)
        until(lambda: settled(release), PATIENCE)


def test_a_run_that_loses_a_deleted_pod_accuses_no_node_and_pages_nobody(
    prometheus: Prometheus, operator: None, release: RealNodes, launched: Launched
):
    with launched("--ranks-per-node=2", "--steps=20000", "--timeout=1500") as run:
        name = begun(release, run)
        steps = f'lockstep_train_steps_total{{run="{name}"}} > 50'
        until(lambda: len(prometheus.ask(steps)) == 4 or run.poll() is not None, PATIENCE)
        assert run.poll() is None, run.communicate()
        release.core.delete_namespaced_pod(f"{name}-worker-1".lower(), RUNS)
        until(lambda: run.poll() is not None, PATIENCE)
    until(lambda: not release.pods(RUNS), PATIENCE)
    about = f'lockstep_finding_active{{run="{name}"}} == 1'
    until(lambda: prometheus.ask(about), PATIENCE)

    [(told, _)] = prometheus.ask(about)
    assert ("record", "stop") == (told["tier"], told["kind"])
    assert [] == [one for node in release.names for one in accused(release, node, name)]
    words = prometheus.ask(f'lockstep_rank_last_state{{run="{name}"}} == 1')
    assert "stopped" in {labels["state"] for labels, _ in words}


def test_an_image_that_is_not_there_is_said_and_nothing_is_left(
    operator: None, release: RealNodes, launched: Launched
):
    image = "localhost/lockstep-workloads:9.9.9"
    with launched("--steps=10", "--start-timeout=120", f"--image={image}") as run:
        _, errors = run.communicate(timeout=300)

    assert 69 == run.returncode, errors
    assert image in errors
    until(lambda: not release.pods(RUNS), PATIENCE)


def test_a_node_that_loses_its_power_under_a_run_is_named_and_comes_back(
    prometheus: Prometheus, operator: None, release: RealNodes, launched: Launched
):
    victim = release.names[1]
    with launched("--steps=20000", "--timeout=1500") as run:
        name = begun(release, run)
        steps = f'lockstep_train_steps_total{{run="{name}"}} > 100'
        until(lambda: len(prometheus.ask(steps)) == 2 or run.poll() is not None, PATIENCE)
        assert run.poll() is None, run.communicate()
        assert set() == named(prometheus, name)
        release.power_off(victim)
        try:
            until(lambda: victim in named(prometheus, name), PATIENCE)
            assert {victim} == named(prometheus, name)
            until(lambda: victim not in release.ready(), PATIENCE)
        finally:
            release.power_on(victim)
    until(lambda: not release.pods(RUNS), PATIENCE)
