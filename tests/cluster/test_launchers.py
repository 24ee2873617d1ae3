"""Runs put onto a real API server: MPIJob (with the operator's double) and Job on hollow nodes."""

import json
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from lockstep.workloads.launch.kubernetes import api, cluster_run
from lockstep.workloads.launch.kubernetes.api import ApiCluster
from lockstep.workloads.launch.kubernetes.cluster_run import ClusterRun
from lockstep.workloads.launch.kubernetes.conditions import Phase
from lockstep.workloads.launch.kubernetes.facts import look
from lockstep.workloads.launch.kubernetes.preflight import refusal
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings
from lockstep.workloads.launch.kubernetes.submission import submission
from tests.cluster.control_plane import ControlPlane
from tests.cluster.launching import (
    ACCOUNT,
    CLAIM,
    NAMESPACE,
    RUNS,
    gpus,
    grant,
    left,
    lockstep,
    placed,
    spec,
    until,
)
from tests.cluster.mpi_operator import MpiOperator
from tests.cluster.mpijob_crd import CRD

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]

REFUSED_SECONDS = 2.5
"""Of CPU, from the shell to the sentence, for the goal of 5 s: all but 0.03 s of it is ours."""


@pytest.fixture(scope="module")
def admin(cluster: ControlPlane) -> Iterator[client.ApiClient]:
    """The administrator's client; namespace, claim and the MPIJob's definition are there."""
    settings = client.Configuration()
    config.load_kube_config(str(cluster.kubeconfig()), client_configuration=settings)
    own = client.ApiClient(settings)
    core = client.CoreV1Api(own)
    definitions = client.ApiextensionsV1Api(own)
    definitions.create_custom_resource_definition(CRD)
    # Hollow kubelets have no sub-paths, which rings on a node need: so it forbids host paths.
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.create_namespace({"metadata": {"name": NAMESPACE, "labels": labels}})
    volume = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": "/nowhere"}, "storageClassName": "by-hand",
        "claimRef": {"name": CLAIM, "namespace": NAMESPACE},
    }  # fmt: skip
    core.create_persistent_volume({"metadata": {"name": "launchers"}, "spec": volume})
    wish = {
        "accessModes": ["ReadWriteMany"], "storageClassName": "by-hand",
        "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    core.create_namespaced_persistent_volume_claim(
        NAMESPACE, {"metadata": {"name": CLAIM}, "spec": wish}
    )
    yield own
    core.delete_namespace(NAMESPACE)
    core.delete_persistent_volume("launchers")
    definitions.delete_custom_resource_definition(CRD["metadata"]["name"])
    until(lambda: not [
        each for each in core.list_namespace().items if each.metadata.name == NAMESPACE
    ])  # fmt: skip
    own.close()


@pytest.fixture
def connected(cluster: ControlPlane, admin: client.ApiClient) -> Iterator[ApiCluster]:
    with closing(ApiCluster(cluster.kubeconfig())) as own:
        yield own


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_run, "POLL_SECONDS", 0.3)


@pytest.fixture
def settings() -> Settings:
    return Settings("image:1", namespace=NAMESPACE, start_timeout=60.0, host_rings=False)


def all_run(admin: client.ApiClient, operator: MpiOperator, run: ClusterRun) -> None:
    """Its four workers, and then the launcher that comes with them."""
    for index in range(4):
        operator.phase(f"{run.made.name}-worker-{index}", "Running")

    def launchers() -> list[str]:
        pods = client.CoreV1Api(admin).list_namespaced_pod(NAMESPACE).items
        names = [each.metadata.name for each in pods]
        return [each for each in names if each.startswith(f"{run.made.name}-launcher-")]

    until(launchers)
    operator.phase(launchers()[0], "Running")


def test_an_mpijob_runs_on_every_node_and_leaves_nothing(
    admin: client.ApiClient, connected: ApiCluster, settings: Settings
) -> None:
    wanted = spec("aaaa")
    # A kubelet tells of devices with its next status.
    until(lambda: len(gpus(admin)) == 4)
    assert None is refusal(look(connected, settings), wanted, settings)
    run = ClusterRun(connected, submission(wanted, settings, ["true"]), wanted.run, settings)
    stages: list[str] = []
    with MpiOperator(admin, NAMESPACE) as operator:

        def tell(stage: str, words: str) -> None:
            stages.append(stage)
            if stage == "running":
                operator.finish(run.made.name, "Succeeded")

        run.create()
        ended = run.wait(tell)
        assert run.end()

    assert (Phase.SUCCEEDED, "") == (ended.phase, ended.reason)
    assert "running" in stages
    assert 4 == len({each.node for each in ended.pods if each.role == "worker"})
    until(lambda: not left(admin, wanted.run), 15)


def test_a_failed_worker_fails_the_run_and_is_named(
    admin: client.ApiClient, connected: ApiCluster, settings: Settings
) -> None:
    wanted = spec("bbbb")
    run = ClusterRun(connected, submission(wanted, settings, ["true"]), wanted.run, settings)
    workers = [f"{run.made.name}-worker-{index}" for index in range(4)]
    with MpiOperator(admin, NAMESPACE, scheduler="nobody") as operator:
        run.create()
        until(lambda: len(left(admin, wanted.run)) >= 5)
        all_run(admin, operator, run)

        def tell(stage: str, words: str) -> None:
            if stage == "running":
                killed = {"exitCode": 137, "reason": "OOMKilled"}
                operator.phase(workers[2], "Failed", terminated=killed)
                operator.finish(run.made.name, "Failed", "launcher failed")

        ended = run.wait(tell)
        assert run.end()

    assert Phase.FAILED is ended.phase
    assert f"worker {workers[2]} ended with code 137 (OOMKilled)" in ended.reason
    until(lambda: not left(admin, wanted.run), 15)


def test_an_image_that_cannot_be_pulled_fails_the_run_with_the_pods_reason(
    admin: client.ApiClient, connected: ApiCluster, settings: Settings
) -> None:
    wanted = spec("ffff")
    run = ClusterRun(connected, submission(wanted, settings, ["true"]), wanted.run, settings)
    with MpiOperator(admin, NAMESPACE, scheduler="nobody") as operator:
        run.create()
        until(lambda: len(left(admin, wanted.run)) >= 5)
        why = {"reason": "ImagePullBackOff", "message": "not found"}
        operator.phase(f"{run.made.name}-worker-1", "Pending", waiting=why)
        ended = run.wait(lambda stage, words: None)
        assert run.end()

    assert f"{run.made.name}-worker-1 cannot start: " in ended.reason
    assert "ImagePullBackOff: not found" in ended.reason
    until(lambda: not left(admin, wanted.run), 15)


def test_a_run_that_is_suspended_after_it_ran_loses_its_pods_and_ends_with_the_reason(
    admin: client.ApiClient, connected: ApiCluster, settings: Settings
) -> None:
    wanted = spec("5555")
    run = ClusterRun(connected, submission(wanted, settings, ["true"]), wanted.run, settings)
    jobs = client.CustomObjectsApi(admin)
    with MpiOperator(admin, NAMESPACE, scheduler="nobody") as operator:
        run.create()
        until(lambda: len(left(admin, wanted.run)) >= 5)
        all_run(admin, operator, run)

        def tell(stage: str, words: str) -> None:
            if stage == "running":
                jobs.patch_namespaced_custom_object(
                    "kubeflow.org", "v2beta1", NAMESPACE, "mpijobs", run.made.name,
                    {"spec": {"runPolicy": {"suspend": True}}},
                )  # fmt: skip

        ended = run.wait(tell)
        until(lambda: not [each for each in left(admin, wanted.run) if "-worker-" in each])
        assert run.end()

    assert Phase.STOPPED is ended.phase
    assert "it was suspended after it had run" in ended.reason
    until(lambda: not left(admin, wanted.run), 15)


def test_what_the_operator_says_in_an_event_alone_is_refused_before_it_is_created(
    admin: client.ApiClient, connected: ApiCluster, settings: Settings
) -> None:
    wanted = replace(spec("4444"), run="7b-4444")
    refused = refusal(look(connected, settings), wanted, settings)
    made = submission(wanted, settings, ["true"])
    with MpiOperator(admin, NAMESPACE, scheduler="nobody") as operator:
        connected.create(made.resource.path(NAMESPACE), made.whole)
        until(lambda: bool(operator.events))
        left_there = left(admin, wanted.run)
        connected.delete(made.path)

    assert refused is not None
    assert "the run id 7b-4444 names hosts of 4 nodes" in refused.sentence
    assert ["7b-4444"] == left_there
    assert "invalid DNS label 7b-4444-worker-3" in operator.events[0]


def test_an_api_server_that_is_away_is_waited_for_and_told(
    cluster: ControlPlane, admin: client.ApiClient, connected: ApiCluster, settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(api, "READ_SECONDS", 1.0)
    wanted, server = spec("9999"), cluster.pids["kube-apiserver"]
    run = ClusterRun(connected, submission(wanted, settings, ["true"]), wanted.run, settings)
    stages: list[str] = []
    with MpiOperator(admin, NAMESPACE, scheduler="nobody") as operator:

        def tell(stage: str, words: str) -> None:
            if stage == "waiting for the cluster":
                os.kill(server, signal.SIGCONT)
                operator.finish(run.made.name, "Succeeded")
            elif not stages:
                os.kill(server, signal.SIGSTOP)
            stages.append(stage)

        run.create()
        try:
            ended = run.wait(tell)
        finally:
            os.kill(server, signal.SIGCONT)
        assert run.end()

    assert "waiting for the cluster" in stages
    assert Phase.SUCCEEDED is ended.phase
    until(lambda: not left(admin, wanted.run), 15)


def test_a_run_that_is_too_large_is_refused_within_seconds_and_creates_nothing(
    cluster: ControlPlane, admin: client.ApiClient, tmp_path: Path
) -> None:
    before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    answer = subprocess.run(
        lockstep("gpt", "--nodes", 5, "--ranks-per-node", 8, "--launcher", "kubernetes",
                 "--device", "cuda", *placed(cluster.kubeconfig()), "--out", tmp_path / "o"),
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    took = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before

    assert 64 == answer.returncode, answer.stderr
    assert "wants 5 nodes with 8 nvidia.com/gpu" in answer.stderr
    assert not (tmp_path / "o").exists()
    assert took < REFUSED_SECONDS


def test_a_job_that_is_interrupted_leaves_nothing(
    cluster: ControlPlane, admin: client.ApiClient, tmp_path: Path
) -> None:
    run = f"{RUNS}-eeee"
    process = subprocess.Popen(
        lockstep("gpt", "--launcher", "kubernetes", "--kind", "job", "--device", "cpu",
                 *placed(cluster.kubeconfig()), "--out", tmp_path / "o", "--run-id", run,
                 "-o", "json"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("running"):
                break
        pods = client.CoreV1Api(admin).list_namespaced_pod(
            NAMESPACE, label_selector=f"lockstep.example/run={run}"
        )
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
        process.wait()

    assert set(cluster.nodes) == {each.spec.node_name for each in pods.items}
    assert 130 == process.returncode, err
    assert "interrupted" == json.loads(out)["ending"]
    assert "" == json.loads(out)["reason"]
    until(lambda: not left(admin, run), 15)


def test_a_job_that_takes_too_long_is_ended_and_told(
    admin: client.ApiClient, connected: ApiCluster, settings: Settings
) -> None:
    wanted, settings = spec("cccc"), replace(settings, kind=Kind.JOB, timeout=4.0)
    run = ClusterRun(connected, submission(wanted, settings, []), wanted.run, settings)
    run.create()
    ended = run.wait(lambda stage, words: None)

    assert (Phase.LATE, "it took longer than --timeout 4") == (ended.phase, ended.reason)
    assert run.end()
    until(lambda: not left(admin, wanted.run), 15)


def test_an_account_without_rights_is_refused_and_with_exactly_ours_it_works(
    cluster: ControlPlane, admin: client.ApiClient, settings: Settings
) -> None:
    settings = replace(settings, kind=Kind.JOB)
    wanted = spec("dddd")
    with closing(ApiCluster(cluster.kubeconfig(ACCOUNT))) as own:
        refused = refusal(look(own, settings), wanted, settings)
        assert refused is not None
        assert "may not create jobs.batch" in refused.sentence
        grant(admin, settings)
        until(lambda: not look(own, settings).denied, 15)
        assert None is refusal(look(own, settings), wanted, settings)
        run = ClusterRun(own, submission(wanted, settings, []), wanted.run, settings)
        run.create()
        threading.Timer(1.0, lambda: own.delete(run.made.path)).start()
        ended = run.wait(lambda stage, words: None)
        assert "was deleted" in ended.reason
        assert not [each for each in run.logs(ended.pods).values() if "forbidden" in each]
        assert run.end()
    until(lambda: not left(admin, wanted.run), 15)


def test_the_definition_refuses_what_the_operator_would(admin: client.ApiClient) -> None:
    wrong = {
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "wrong"},
        "spec": {"slotsPerWorker": "one", "mpiReplicaSpecs": {"Launcher": {"template": {}}}},
    }  # fmt: skip

    with pytest.raises(ApiException, match="slotsPerWorker"):
        client.CustomObjectsApi(admin).create_namespaced_custom_object(
            "kubeflow.org", "v2beta1", NAMESPACE, "mpijobs", wrong
        )
