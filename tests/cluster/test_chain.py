"""A chain on a real API server: the run inside of it comes and goes, and the chain goes on.

Argo itself is not there: this test does what its controller would, a pod a step and a phase.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import pytest

from lockstep.workloads.launch.kubernetes import cluster_run
from lockstep.workloads.launch.kubernetes.api import ApiCluster
from lockstep.workloads.launch.kubernetes.cluster_run import ClusterRun, Ended
from lockstep.workloads.launch.kubernetes.conditions import Phase
from lockstep.workloads.launch.kubernetes.settings import STEP, WORKFLOW, Kind, Settings, labels
from lockstep.workloads.launch.kubernetes.submission import submission
from lockstep.workloads.spec import Layout, RunSpec
from tests.cluster.asking import MERGE, Api
from tests.cluster.control_plane import ControlPlane
from tests.cluster.launching import until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),
]
NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{WORKFLOW.plural}.{WORKFLOW.group}"},
    "spec": {
        "group": WORKFLOW.group,
        "scope": "Namespaced",
        "names": {"kind": WORKFLOW.kind, "plural": WORKFLOW.plural},
        "versions": [{
            "name": WORKFLOW.version, "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True,
            }},
        }],
    },
}  # fmt: skip
SPEC = RunSpec("gpt-chain", "gpt", Layout(2, 1, 2), 20, 0, device="cpu")
CHAIN = Settings(
    "i", "i", namespace=NAMESPACE, kind=Kind.JOB, host_rings=False, chain=True, submission="ours"
)


@pytest.fixture
def api(cluster: ControlPlane) -> Iterator[Api]:
    """The server, which knows Workflows."""
    own = Api(cluster.url, cluster.tokens["admin"], cluster.kubeconfig())
    own.ask("POST", DEFINITIONS, CRD)
    until(lambda: serves_workflows(own))
    yield own
    own.ask("DELETE", f"{DEFINITIONS}/{CRD['metadata']['name']}")


def serves_workflows(api: Api) -> bool:
    with suppress(ValueError):  # a plain "404 page not found" until then
        return api.ask("GET", WORKFLOW.path(NAMESPACE))[0] == 200
    return False


def launched(cluster: ApiCluster, settings: Settings) -> ClusterRun:
    run = ClusterRun(cluster, submission(SPEC, settings, ["true"]), SPEC.run, settings)
    run.create()
    return run


def workers(api: Api) -> list[Any]:
    chosen = "lockstep.example/run=gpt-chain,lockstep.example/role=worker"
    found: list[Any] = api.read(f"{PODS}?labelSelector={chosen}")["items"]
    return found


def test_a_chain_outlives_its_run_whose_launcher_leaves_the_steps_alone(
    cluster: ControlPlane, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_run, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(cluster_run, "LOST_SECONDS", 0.6)
    ended: list[Ended] = []
    step = {
        "metadata": {"name": "gpt-chain-run", "labels": labels(SPEC.run, STEP)},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "i"}]},
    }
    with closing(ApiCluster(api.kubeconfig)) as own, closing(ApiCluster(api.kubeconfig)) as other:
        outer = launched(own, CHAIN)
        assert 201 == api.ask("POST", PODS, step)[0]
        inner = launched(other, replace(CHAIN, chain=False, step=True))
        [owner] = api.read(inner.made.path)["metadata"]["ownerReferences"]
        assert outer.objects.uid == owner["uid"]

        until(lambda: len(workers(api)) == 2)
        waiting = threading.Thread(
            target=lambda: ended.append(outer.wait(lambda stage, words: None)), daemon=True
        )
        waiting.start()
        time.sleep(1.0)  # it has seen the workers
        complete = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
        assert 200 == api.ask("PATCH", f"{inner.made.path}/status", complete, MERGE)[0]
        assert Phase.SUCCEEDED is inner.wait(lambda stage, words: None).phase
        assert inner.end()
        assert [] == workers(api)
        time.sleep(2.0)  # longer than a lost worker of a run is waited for
        assert waiting.is_alive()

        api.ask("PATCH", outer.made.path, {"status": {"phase": "Succeeded"}}, MERGE)
        waiting.join(30)
        api.ask("DELETE", f"{PODS}/gpt-chain-run")
        assert outer.end()

    assert [(Phase.SUCCEEDED, "")] == [(each.phase, each.reason) for each in ended]
