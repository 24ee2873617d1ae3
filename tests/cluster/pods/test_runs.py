"""Runs launched into pods, side by side, and what is told of them."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from lockstep.collector.contract.kubernetes import HEALTHY, Family
from lockstep.workloads.spec import Layout, RunSpec
from tests.cluster.pods.conftest import Launched, begin
from tests.cluster.pods.real_nodes import PATIENCE, RealNodes, until
from tests.cluster.pods.release import (
    NAMESPACE,
    RUNS,
    Prometheus,
    findings_folder,
    shared_folder,
)
from tests.cluster.pods.runs import (
    LaunchedRun,
    accused,
    begun,
    conditions,
    ended,
    launching,
    named,
    plain_jobs,
    pods_of,
    ranks,
)

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = [
    pytest.mark.pods,
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
at_night = pytest.mark.sweep(sample=0)
"""By day there is a run's series, a finding with all that follows from it, and its end."""
NOWHERE = "localhost/lockstep-workloads:9.9.9"


@pytest.fixture(scope="module", autouse=True)
def side_by_side(request: pytest.FixtureRequest, release: RealNodes) -> None:
    """They begin together: for the most part they wait."""
    begin(request, "imageless_run", "first_run", "slow_run", "mounted")


@pytest.fixture(scope="module")
def imageless_run(
    operator: None, release: RealNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LaunchedRun]:
    """A run whose image is nowhere."""
    folder = tmp_path_factory.mktemp("imageless")
    words = ("--steps=10", "--start-timeout=120", f"--image={NOWHERE}")
    with launching(release, folder / "run", *words) as run:
        yield run


@pytest.fixture(scope="module")
def first_run(
    operator: None, release: RealNodes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LaunchedRun]:
    """A run that writes a checkpoint, as in a namespace that forbids folders of nodes."""
    folder = tmp_path_factory.mktemp("first")
    words = ("--rings=pod", "--steps=100", "--checkpoint-every=50", "--device-seconds=0.1")
    with launching(release, folder / "run", *words) as run:
        yield run


@pytest.fixture(scope="module")
def mounted(release: RealNodes, first_run: LaunchedRun) -> list[Any]:
    """What the pods of the first run had mounted."""
    begun(release, first_run)
    return [volume for pod in pods_of(release, first_run.name) for volume in pod.spec.volumes]


@at_night
def test_jobs_with_pods_of_their_own_are_on_the_pages_of_their_nodes(
    prometheus: Prometheus, release: RealNodes
):
    spec = RunSpec("gpt-20260101t000000-a1b2", "gpt", Layout(2, 1, 2), 150, 0)

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


def test_a_slow_rank_becomes_a_finding_an_alert_a_report_and_a_condition_of_its_node(
    prometheus: Prometheus,
    release: RealNodes,
    slow_run: LaunchedRun,
    visitor: "BrowserContext",
):
    run, name = slow_run, slow_run.name
    culprit = run.nodes[1]
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


@at_night
def test_a_run_in_a_restricted_namespace_keeps_its_rings_in_its_pods(
    mounted: list[Any], first_run: LaunchedRun
):
    ended(first_run)

    assert [] == [one.name for one in mounted if one.host_path]


@at_night
def test_a_run_goes_on_from_the_checkpoint_of_another_on_the_claim(
    first_run: LaunchedRun, release: RealNodes, launched: Launched
):
    def steps(run: LaunchedRun) -> list[int]:
        archive = shared_folder(release) / run.name
        return sorted(set(pq.read_table(archive / "steps.parquet")["step"].to_pylist()))

    ended(first_run)
    checkpoints = f"/runs/{first_run.name}/checkpoints"
    with launched("--steps=120", "--device-seconds=0.05", f"--resume={checkpoints}") as second:
        ended(second)

    assert list(range(100)) == steps(first_run)
    assert list(range(100, 120)) == steps(second)  # of a second, which is there to its end


@at_night
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


@at_night
def test_an_image_that_is_not_there_is_said_and_nothing_is_left(
    imageless_run: LaunchedRun, release: RealNodes
):
    _, errors = imageless_run.communicate(timeout=300)

    assert 69 == imageless_run.returncode, errors
    assert NOWHERE in errors
    until(lambda: not pods_of(release, imageless_run.name), PATIENCE)


def test_a_run_that_ends_leaves_no_pod_and_its_truth_names_the_node(
    slow_run: LaunchedRun, release: RealNodes
):
    name = slow_run.name
    culprit = slow_run.nodes[1]
    ended(slow_run)
    [fault] = json.loads((shared_folder(release) / name / "truth.json").read_text())["faults"]
    assert culprit == fault["node"]  # and not the pod's host name
    until(lambda: not pods_of(release, name), PATIENCE)
