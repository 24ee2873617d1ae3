"""Runs of tests on a real cluster: where they go, what is left of them, who may launch them."""

import sys
import time
from pathlib import Path
from typing import Any

from kubernetes import client

from lockstep.collector.contract.kubernetes import RUNS_ACCOUNT, RUNS_NAMESPACE
from lockstep.workloads.launch.kubernetes.settings import Settings
from lockstep.workloads.launch.kubernetes.submission import rights
from lockstep.workloads.spec import Layout, RunSpec

NAMESPACE = "launchers"
CLAIM = "lockstep-runs"
ACCOUNT = f"{RUNS_NAMESPACE}:{RUNS_ACCOUNT}"
RUNS = "gpt-20260101t000000"


def spec(token: str, *, nodes: int = 4) -> RunSpec:
    run = f"{RUNS}-{token}"
    return RunSpec(run, "gpt", Layout(nodes, 1, nodes), 20, 0, device="cuda", pace=False)


def until(said: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.2)


def left(admin: client.ApiClient, run: str) -> list[str]:
    """Everything of a run that is there."""
    chosen = {"label_selector": f"lockstep.example/run={run}"}
    core, batch = client.CoreV1Api(admin), client.BatchV1Api(admin)
    found = [
        *core.list_namespaced_pod(NAMESPACE, **chosen).items,
        *core.list_namespaced_service(NAMESPACE, **chosen).items,
        *batch.list_namespaced_job(NAMESPACE, **chosen).items,
    ]
    own = client.CustomObjectsApi(admin).list_namespaced_custom_object(
        "kubeflow.org", "v2beta1", NAMESPACE, "mpijobs", **chosen
    )["items"]
    jobs = [each for each in batch.list_namespaced_job(NAMESPACE).items
            if each.metadata.name.startswith(run)]  # fmt: skip
    return [each.metadata.name for each in (*found, *jobs)] + [
        each["metadata"]["name"] for each in own
    ]


def gpus(admin: client.ApiClient) -> list[str]:
    """What nodes can give, of those that have any."""
    nodes = client.CoreV1Api(admin).list_node().items
    told = [(each.status.allocatable or {}).get("nvidia.com/gpu") for each in nodes]
    return [each for each in told if each not in (None, "0")]


def lockstep(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "lockstep", "run", *map(str, arguments)]


def placed(kubeconfig: Path) -> tuple[object, ...]:
    return ("--image", "image:1", "--namespace", NAMESPACE, "--kubeconfig", kubeconfig)


def grant(admin: client.ApiClient, settings: Settings) -> None:
    """The rights that `rights` names, and none more."""
    roles = client.RbacAuthorizationV1Api(admin)
    rules = [
        {"apiGroups": [each.group], "resources": [each.resource], "verbs": [each.verb]}
        for each in rights(settings)
    ]
    roles.create_namespaced_role(NAMESPACE, {"metadata": {"name": "runs"}, "rules": rules})
    namespace, _, name = ACCOUNT.partition(":")
    binding = {
        "metadata": {"name": "runs"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runs"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    roles.create_namespaced_role_binding(NAMESPACE, binding)
