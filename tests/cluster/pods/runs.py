"""Runs in pods: who makes pods of them, how they are launched, and where their ranks are."""

import contextlib
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from kubernetes import client

from lockstep.collector.contract.kubernetes import FAULTS, HEALTHY, ROLE_LABEL, RUN_LABEL, Family
from lockstep.runs.planning import run_id
from lockstep.workloads.launch.kubernetes import job_manifests
from lockstep.workloads.launch.kubernetes.settings import JOB_INDEX, Kind, Settings
from lockstep.workloads.spec import RunSpec
from tests.cluster.mpijob_crd import CRD
from tests.cluster.pods.real_nodes import PATIENCE, REGISTRY, RealNodes, until
from tests.cluster.pods.release import RUNS, Prometheus
from tests.cluster.pods.running_operator import RunningMpiOperator


@contextlib.contextmanager
def mpi_operator(nodes: RealNodes) -> Iterator[None]:
    """MPIJobs become pods."""
    definitions = client.ApiextensionsV1Api(nodes.api)
    name = CRD["metadata"]["name"]
    definitions.create_custom_resource_definition(CRD)
    until(lambda: any(
        one.type == "Established" and one.status == "True"
        for one in definitions.read_custom_resource_definition(name).status.conditions or ()
    ))  # fmt: skip
    try:
        with RunningMpiOperator(nodes.api, RUNS):
            yield
    finally:
        definitions.delete_custom_resource_definition(name)


@contextlib.contextmanager
def plain_jobs(nodes: RealNodes, spec: RunSpec) -> Iterator[None]:
    """The run as Jobs of one pod each: this Kubernetes gives the pods of one Job no index."""
    settings = Settings(f"{REGISTRY}/lockstep-workloads:0.2.0", kind=Kind.JOB, timeout=600)
    whole, batch = job_manifests.indexed_job(spec, settings), client.BatchV1Api(nodes.api)
    name, names = whole["metadata"]["name"], []
    service = job_manifests.service(spec, settings)
    nodes.core.create_namespaced_service(RUNS, service)
    try:
        for index in range(spec.layout.nodes):
            one = deepcopy(whole)
            one["metadata"]["name"] = f"{name}-{index}"
            one["spec"] |= {"completions": 1, "parallelism": 1}
            del one["spec"]["completionMode"]
            template = one["spec"]["template"]
            about = template.setdefault("metadata", {})
            about["annotations"] = {**about.get("annotations", {}), JOB_INDEX: str(index)}
            template["spec"]["hostname"] = f"{name}-{index}"
            batch.create_namespaced_job(RUNS, one)
            names.append(f"{name}-{index}")
        yield
    finally:
        for each in names:
            batch.delete_namespaced_job(each, RUNS, propagation_policy="Background")
        with contextlib.suppress(ValueError):  # of the client, which waits for a Service
            nodes.core.delete_namespaced_service(name, RUNS)


class LaunchedRun(subprocess.Popen[str]):
    """`lockstep run --launcher kubernetes` with two nodes.

    Attributes:
        name: Of the run.
        pods: The uid of each pod of its ranks -> its node, once they run.
        nodes: Rank -> node, likewise; with several ranks a pod, pod -> node.
    """

    def __init__(self, nodes: RealNodes, out: Path, *words: str) -> None:
        self.name = run_id("gpt", secrets.token_hex(2))
        self.pods: dict[str, str] = {}
        self.nodes: dict[int, str] = {}
        command = [
            sys.executable, "-m", "lockstep", "run", "gpt", "--nodes=2", "--launcher=kubernetes",
            "--device=cpu", f"--image={REGISTRY}/lockstep-workloads:0.2.0",
            f"--run-id={self.name}", f"--kubeconfig={nodes.kubeconfig}", f"--out={out}", "-ojson",
            *words,
        ]  # fmt: skip
        super().__init__(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextlib.contextmanager
def launching(nodes: RealNodes, out: Path, *words: str) -> Iterator[LaunchedRun]:
    """A run, until the block ends."""
    with LaunchedRun(nodes, out, *words) as run:
        try:
            yield run
        finally:
            if run.poll() is None:
                run.terminate()
            run.communicate(timeout=120)


def pods_of(nodes: RealNodes, run: str) -> list[Any]:
    """The pods of a run, also those that somebody deletes."""
    chosen = f"{RUN_LABEL}={run}"
    return list(nodes.core.list_namespaced_pod(RUNS, label_selector=chosen).items)


def ranks(nodes: RealNodes, run: str) -> dict[int, str]:
    """Rank -> node, of the pods that run; with one rank a pod, else pod -> node."""
    return {
        int(pod.spec.hostname.rpartition("-")[2]): pod.spec.node_name
        for pod in pods_of(nodes, run)
        if pod.metadata.labels[ROLE_LABEL] == "worker" and pod.status.phase == "Running"
    }


def begun(nodes: RealNodes, run: LaunchedRun) -> str:
    """Its name, once all its ranks have pods that run."""
    until(lambda: len(ranks(nodes, run.name)) == 2 or run.poll() is not None, PATIENCE)
    assert run.poll() is None, run.communicate()
    run.pods |= {
        pod.metadata.uid: pod.spec.node_name
        for pod in pods_of(nodes, run.name)
        if pod.metadata.labels[ROLE_LABEL] == "worker"
    }
    run.nodes |= ranks(nodes, run.name)
    return run.name


def ended(run: LaunchedRun) -> None:
    """It has ended well."""
    said, errors = run.communicate(timeout=900)
    assert 0 == run.returncode, errors
    assert "finished" == json.loads(said)["ending"]


def named(prometheus: Prometheus, run: str) -> set[str]:
    """Nodes that findings of the run name now; one of the run as a whole names none."""
    active = prometheus.ask(f'lockstep_finding_active{{run="{run}"}} == 1')
    return {labels["node"] for labels, _ in active if "node" in labels}


def accused(nodes: RealNodes, node: str, run: str) -> list[str]:
    """What is written on a node about a run, or about none.

    What is over stays there for a quarter of an hour, and `Healthy` with it.
    """
    told = nodes.core.read_node(node).metadata.annotations or {}
    found = json.loads(told.get(FAULTS, "{}")).values()
    return [one["value"] for one in found if one["source"] in (run, "")]


def conditions(nodes: RealNodes, node: str) -> dict[str, str]:
    """Those of ours."""
    told = nodes.core.read_node(node).status.conditions
    return {one.type: one.status for one in told if one.type in (HEALTHY, *Family)}
