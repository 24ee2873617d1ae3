"""Runs in pods: who makes pods of them, how they are launched, and where their ranks are."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

from kubernetes import client

from collector.contract.kubernetes import FAULTS, HEALTHY, ROLE_LABEL, RUN_LABEL, Family
from tests.cluster.mpijob_crd import CRD
from tests.cluster.pods.real_nodes import PATIENCE, REGISTRY, RealNodes, until
from tests.cluster.pods.release import RUNS
from tests.cluster.pods.running_operator import RunningMpiOperator
from workloads.launchers.kubernetes import indexed_job
from workloads.launchers.kubernetes.names import JOB_INDEX
from workloads.launchers.kubernetes.settings import Kind, Settings
from workloads.spec import RunSpec


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
    settings = Settings(f"{REGISTRY}/lockstep-workloads:0.1.0", kind=Kind.JOB, timeout=600)
    whole, batch = indexed_job.job(spec, settings), client.BatchV1Api(nodes.api)
    name, names = whole["metadata"]["name"], []
    service = indexed_job.service(spec, settings)
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


@contextlib.contextmanager
def launching(nodes: RealNodes, out: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """`lockstep run --launcher kubernetes` with two nodes, until the block ends."""
    command = [
        sys.executable, "-m", "lockstep", "run", "gpt", "--nodes=2", "--launcher=kubernetes",
        "--device=cpu", f"--image={REGISTRY}/lockstep-workloads:0.1.0",
        f"--kubeconfig={nodes.kubeconfig}", f"--out={out}", "-ojson", *words,
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


def ranks(nodes: RealNodes) -> dict[int, str]:
    """Rank -> node, of the pods that run; with one rank a pod, else pod -> node."""
    found = nodes.core.list_namespaced_pod(
        RUNS, label_selector=f"{ROLE_LABEL}=worker", field_selector="status.phase=Running"
    ).items
    return {int(pod.spec.hostname.rpartition("-")[2]): pod.spec.node_name for pod in found}


def begun(nodes: RealNodes, run: "subprocess.Popen[str]") -> str:
    """Its name, once all its ranks have pods that run."""
    until(lambda: len(ranks(nodes)) == 2 or run.poll() is not None, PATIENCE)
    assert run.poll() is None, run.communicate()
    return str(nodes.pods(RUNS)[0].metadata.labels[RUN_LABEL])


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
