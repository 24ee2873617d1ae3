"""What we create and what our examples say others' controllers take; and what they refuse."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from lockstep.runs.on_cluster import command
from lockstep.workloads.launch.kubernetes import conditions
from lockstep.workloads.launch.kubernetes.conditions import Phase
from lockstep.workloads.launch.kubernetes.pod import RINGS_FOLDER
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings, is_hosts_name
from lockstep.workloads.launch.kubernetes.submission import submission
from lockstep.workloads.spec import Layout, RunSpec
from tests.cluster.controllers import (
    InvalidError,
    Manifest,
    argo,
    at,
    jobset,
    kueue,
    mpi_operator,
    trainer,
)
from tests.workloads.launch.kubernetes.conftest import RUN

EXAMPLES = Path(__file__).parents[2] / "examples" / "kubernetes"
SETTINGS = Settings("registry.example/lockstep-workloads:1", "registry.example/lockstep-watch:1")
SPEC = RunSpec(RUN, "gpt", Layout(4, 2, 8), 20, 0, device="cuda", pace=False)
TRAINJOB = yaml.safe_load((EXAMPLES / "trainjob.yaml").read_text())
JOBSET = yaml.safe_load((EXAMPLES / "jobset.yaml").read_text())
PATCH = "spec.runtimePatches.0.trainingRuntimeSpec.template.spec.replicatedJobs.0"
POD = "template.spec.template.spec"


def made(kind: str, **changes: Any) -> Manifest:
    settings = replace(
        SETTINGS, chain=kind == "argo", kind=Kind("job" if kind == "job" else "mpijob"), **changes
    )
    return submission(SPEC, settings, command(SPEC, settings)).whole


def changed(manifest: Manifest, path: str, value: Any) -> Manifest:
    """With another value there; None = without the field."""
    whole = deepcopy(manifest)
    above, _, last = path.rpartition(".")
    place = at(whole, above)
    if value is None:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return whole


def refused(admitted: Callable[..., Manifest], *words: Manifest) -> str:
    with pytest.raises(InvalidError) as told:
        admitted(*words)
    return str(told.value)


# MPI Operator


def test_the_operator_takes_our_mpijob_and_its_defaults_change_nothing() -> None:
    job = made("mpijob")

    assert [] == mpi_operator.validation_errors(job)
    assert job == mpi_operator.defaulted(job)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("metadata.name", "7b-run", "invalid DNS label 7b-run-worker-3"),
        ("metadata.name", "g" * 60, "invalid DNS label"),
        ("spec.mpiReplicaSpecs.Launcher", None, "must have Launcher replica spec"),
        ("spec.mpiReplicaSpecs.Launcher.replicas", 2, "must be 1"),
        ("spec.mpiReplicaSpecs.Worker.replicas", 0, "greater than or equal to 1"),
        ("spec.mpiReplicaSpecs.Worker.restartPolicy", "Always", "restartPolicy"),
        ("spec.mpiReplicaSpecs.Worker.template.spec.containers", [], "at least one container"),
        ("spec.runPolicy.cleanPodPolicy", "Undefined", "cleanPodPolicy"),
        ("spec.runPolicy.backoffLimit", -1, "backoffLimit"),
        ("spec.mpiImplementation", "LAM", "mpiImplementation"),
        ("spec.slotsPerWorker", -1, "slotsPerWorker"),
    ],
)
def test_the_operator_refuses_in_an_event(path: str, value: Any, said: str) -> None:
    told = mpi_operator.validation_errors(changed(made("mpijob"), path, value))

    assert [each for each in told if said in each]


@pytest.mark.parametrize("name", ["gpt-1", "7b", "g" * 55, "g" * 54, "a-", "gpt.1"])
def test_what_the_operator_would_refuse_by_its_name_is_refused_before(name: str) -> None:
    told = mpi_operator.validation_errors(changed(made("mpijob"), "metadata.name", name))

    # Whoever ends in a dash, the API server itself refuses.
    assert is_hosts_name(name, 4) == (not told and not name.endswith("-"))


def test_the_deadline_and_the_clean_up_are_the_launchers_alone() -> None:
    """Its pod may wait for `start_timeout` before the time of the run counts."""
    job = made("mpijob", timeout=120.0)

    assert {"activeDeadlineSeconds": 420, "backoffLimit": 0, "ttlSecondsAfterFinished": 3600} == (
        mpi_operator.launcher_job(job)
    )


def test_what_ran_or_waits_is_swept_and_what_failed_stays_for_its_log() -> None:
    phases = {"a": "Running", "b": "Pending", "c": "Failed", "d": "Succeeded"}

    assert ["a", "b"] == mpi_operator.swept(made("mpijob"), phases)
    default = changed(made("mpijob"), "spec.runPolicy.cleanPodPolicy", None)
    assert [] == mpi_operator.swept(default, phases)
    assert ["a", "b"] == mpi_operator.swept(kueue.suspended(made("mpijob"), True), phases)


def test_an_end_is_read_as_the_operator_tells_it() -> None:
    def ended(*steps: tuple[str, str, str]) -> tuple[Phase, str] | None:
        told: list[dict[str, Any]] = []
        for kind, status, reason in steps:
            told = mpi_operator.told(told, kind, status, reason, "m")
        return conditions.ended({"status": {"conditions": told}})

    created, running = ("Created", "True", ""), ("Running", "True", "")
    assert None is ended(created, running)
    assert None is ended(created, ("Suspended", "True", ""))
    assert None is ended(
        created, ("Suspended", "True", ""), ("Suspended", "False", "MPIJobResumed")
    )
    assert (Phase.SUCCEEDED, "") == ended(created, running, ("Succeeded", "True", ""))
    evicted = ("Failed", "True", "MPIJobEvicted")
    assert (Phase.FAILED, "MPIJobEvicted: m") == ended(created, running, evicted)
    # Its launcher went on: the operator takes the failure back.
    assert (Phase.SUCCEEDED, "") == ended(created, running, evicted, ("Succeeded", "True", ""))
    out = ("Failed", "True", "BackoffLimitExceeded/OOMKilled")
    assert (Phase.FAILED, "BackoffLimitExceeded/OOMKilled: m") == ended(created, running, out)


# Argo


def test_argo_takes_our_workflow() -> None:
    assert [] == argo.validation_errors(argo.admitted(made("argo")))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("spec.templates.1.steps", [], "at most one template type"),
        ("spec.templates.0.timeout", "1m", "timeout cannot be applied"),
        ("spec.templates.0.activeDeadlineSeconds", 1, "only valid for leaf"),
        ("spec.templates.-1.resource.action", "remove", "not one of its actions"),
        ("spec.activeDeadlineSeconds", 0, "at least 1"),
    ],
)
def test_the_definition_of_argo_refuses(path: str, value: Any, said: str) -> None:
    assert said in refused(argo.admitted, changed(made("argo"), path, value))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("metadata.name", "g" * 64, "more than 63 characters"),
        ("spec.entrypoint", "nowhere", "template name nowhere undefined"),
        ("spec.onExit", "nowhere", "template name nowhere undefined"),
        ("spec.templates.1.name", "a_b", "invalid or not unique"),
        ("spec.templates.1.container.image", "", "image may not be empty"),
        ("spec.templates.-1.resource.action", "apply", "either manifest or manifestFrom"),
        ("spec.templates.1.container.args", ["{{who}}"], "failed to resolve {{who}}"),
    ],
)
def test_argo_ends_at_once(path: str, value: Any, said: str) -> None:
    told = argo.validation_errors(changed(made("argo"), path, value))

    assert [each for each in told if said in each]
    ended = conditions.ended({"status": {"phase": "Failed", "message": f"invalid spec: {told[0]}"}})
    assert ended is not None
    assert "invalid spec: " in ended[1]


# Kueue


@pytest.mark.parametrize("kind", ["mpijob", "job"])
def test_kueue_holds_back_what_names_a_queue_and_nothing_else(kind: str) -> None:
    assert not kueue.is_suspended(kueue.admitted(made(kind)))
    assert kueue.is_suspended(kueue.admitted(made(kind, queue="gpus")))


def test_a_chain_names_no_queue_itself_for_kueue_queues_no_workflow() -> None:
    assert "" == kueue.queue(made("argo", queue="gpus"))


def test_kueue_refuses_queues_that_are_no_names_and_changes_of_what_runs() -> None:
    queued = made("mpijob", queue="gpus")
    running, held = kueue.suspended(queued, False), kueue.suspended(queued, True)
    label = f"{kueue.QUEUE}"

    def renamed(job: Manifest) -> Manifest:
        whole = deepcopy(job)
        whole["metadata"]["labels"][label] = "others"
        return whole

    assert "subdomain" in refused(kueue.admitted, made("mpijob", queue="GPUs_1"))
    assert "immutable" in refused(kueue.admitted, renamed(running), running)
    assert renamed(held) == kueue.admitted(renamed(held), held)


# What people write themselves: JobSet and TrainJob


def pods() -> dict[str, dict[str, Any]]:
    return {
        "jobset": at(jobset.admitted(JOBSET), f"spec.replicatedJobs.0.{POD}"),
        "trainjob": trainer.pod(TRAINJOB),
    }


@pytest.mark.parametrize("name", ["jobset", "trainjob"])
def test_an_example_puts_rings_where_the_nodes_collector_looks(name: str) -> None:
    spec = pods()[name]
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    kubernetes_validate.validate(whole, "1.33", strict=True)
    node = next(each for each in spec["containers"] if each["name"] == "node")
    variables = {each["name"]: each for each in node["env"]}
    [mount] = node["volumeMounts"]
    [volume] = spec["volumes"]

    assert {"path": RINGS_FOLDER, "type": "DirectoryOrCreate"} == volume["hostPath"]
    assert volume["name"] == mount["name"]
    assert "$(POD_UID)" == mount["subPathExpr"]
    run, folder = (variables[f"LOCKSTEP_{each}"]["value"] for each in ("RUN", "DIR"))
    assert f"{folder}/{run}" == mount["mountPath"]
    fields = {each: variables[each]["valueFrom"]["fieldRef"]["fieldPath"]
              for each in ("POD_UID", "LOCKSTEP_NODE")}  # fmt: skip
    assert {"POD_UID": "metadata.uid", "LOCKSTEP_NODE": "spec.nodeName"} == fields


def test_ranks_of_the_jobset_meet_at_the_host_that_jobset_makes() -> None:
    node = pods()["jobset"]["containers"][0]

    assert f"--master-addr={jobset.hostname(JOBSET, 'node', 0, 0)}" in node["args"]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("metadata.name", "Llama", "no DNS label"),
        ("metadata.name", "l" * 50, "JobSet name is too long"),
        ("spec.ttlSecondsAfterFinished", -1, "at least 0"),
        ("spec.failurePolicy.restartStrategy", "Never", "restartStrategy"),
        ("spec.replicatedJobs.0.dependsOn", [{"name": "x", "status": "Ready"}], "first"),
        ("spec.managedBy", "kueue", "domain-prefixed"),
        ("spec.network", {"subdomain": "7b"}, "DNS label"),
        ("spec.successPolicy", {"operator": "All", "targetReplicatedJobs": ["x"]}, "not appear"),
    ],
)
def test_jobset_refuses(path: str, value: Any, said: str) -> None:
    assert said in refused(jobset.admitted, changed(JOBSET, path, value))


def test_of_a_jobset_only_placement_may_change_and_only_while_it_is_suspended() -> None:
    image = f"spec.replicatedJobs.0.{POD}.containers.0.image"
    nodes = f"spec.replicatedJobs.0.{POD}.nodeSelector"
    held = changed(JOBSET, "spec.suspend", True)
    placed = {"gpu": "h100"}

    assert "immutable" in refused(jobset.admitted, changed(JOBSET, image, "other"), JOBSET)
    assert "immutable" in refused(jobset.admitted, changed(JOBSET, nodes, placed), JOBSET)
    assert jobset.admitted(changed(held, nodes, placed), held)
    assert "immutable" in refused(jobset.admitted, changed(held, image, "other"), held)
    policy = changed(JOBSET, "spec.failurePolicy.maxRestarts", 3)
    assert "spec.failurePolicy: Value is immutable" in refused(jobset.admitted, policy, JOBSET)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("metadata.name", "llama.7b", "RFC 1035"),
        ("metadata.name", "l" * 64, "RFC 1035"),
        ("spec.runtimeRef.name", "", "required"),
        ("spec.managedBy", "somebody", "ManagedBy"),
        ("spec.activeDeadlineSeconds", 0, "at least 1"),
        ("spec.trainer.numProcPerNode", 0, "numProcPerNode"),
        ("spec.trainer.env.0", {"name": "PET_NNODES", "value": "2"}, "reserved envs"),
        ("spec.runtimePatches.0.manager", "lockstep", "domain-prefixed"),
        (f"{PATCH}.name", "worker", "must not have replicated job"),
        (f"{PATCH}.{POD}.containers.0.name", "main", "must not have container"),
        (f"{PATCH}.{POD}.containers.0.env", [{"name": "A", "value": "1"}], "must not have envs"),
        (f"{PATCH}.{POD}.hostPID", True, "unknown field hostPID"),
    ],
)
def test_trainer_refuses(path: str, value: Any, said: str) -> None:
    assert said in refused(trainer.admitted, changed(TRAINJOB, path, value))


def test_of_a_trainjob_patches_may_change_while_it_is_suspended_and_its_trainer_never() -> None:
    held = changed(TRAINJOB, "spec.suspend", True)
    selector = f"{PATCH}.{POD}.nodeSelector"

    assert "immutable" in refused(
        trainer.admitted, changed(TRAINJOB, "spec.trainer.numNodes", 4), TRAINJOB
    )
    assert "suspended" in refused(
        trainer.admitted, changed(TRAINJOB, selector, {"a": "b"}), TRAINJOB
    )
    assert trainer.admitted(changed(held, selector, {"a": "b"}), held)


def test_no_launcher_of_ours_makes_a_jobset_or_a_trainjob() -> None:
    """docs/ml/launchers.md says so: what is told of them is for what people write themselves."""
    text = (EXAMPLES.parents[1] / "docs" / "ml" / "launchers.md").read_text()
    kinds = {made(kind)["kind"] for kind in ("mpijob", "job", "argo")}

    assert {"MPIJob", "Job", "Workflow"} == kinds
    for one in (argo, jobset, kueue, mpi_operator, trainer):
        assert one.VERSION in text
