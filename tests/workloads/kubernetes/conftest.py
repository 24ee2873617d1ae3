"""A run as it would be put onto a cluster, and a cluster that answers from memory."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest

from workloads.launchers.kubernetes.cluster import RefusedError, UnreachableError
from workloads.launchers.kubernetes.settings import Settings
from workloads.launchers.kubernetes.submission import rights
from workloads.spec import Layout, RunSpec

RUN = "gpt-20260101T000000-abcd"
NAMESPACE = "/api/v1/namespaces/lockstep"


@dataclass(slots=True)
class FakeCluster:
    """Objects by path; lists by the path above them. What is created appears there.

    Attributes:
        fails: The next answers that do not come.
        asked: Every call, as `VERB path`.
    """

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    fails: list[Exception] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def read(self, path: str, **query: str) -> dict[str, Any]:
        self._asked("GET", path)
        if path in self.objects:
            return deepcopy(self.objects[path])
        below = {each: one for each, one in self.objects.items() if each.startswith(f"{path}/")}
        if path.rpartition("/")[2] in ("pods", "nodes", "resourcequotas"):
            return {"items": [deepcopy(below[each]) for each in sorted(below)]}
        raise RefusedError(404, f"{path} is not there")

    def text(self, path: str, **query: str) -> str:
        self._asked("GET", path)
        if path not in self.objects:
            raise RefusedError(404, f"{path} is not there")
        return str(self.objects[path]["log"])

    def create(self, path: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self._asked("POST", path)
        if manifest["kind"] == "SelfSubjectAccessReview":
            asked = manifest["spec"]["resourceAttributes"]
            return {
                "status": {"allowed": f"{asked['verb']} {asked['resource']}" not in self.denied}
            }
        made = deepcopy(dict(manifest))
        made["metadata"]["uid"] = f"uid-{len(self.objects)}"
        self.objects[f"{path}/{made['metadata']['name']}"] = made
        return made

    def delete(self, path: str) -> None:
        self._asked("DELETE", path)
        gone = self.objects.pop(path, None)
        for each, one in list(self.objects.items()):
            owners = one.get("metadata", {}).get("ownerReferences", ())
            if gone and any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                self.delete(each)

    def pod(self, name: str, *, role: str = "worker", node: str = "", **status: Any) -> None:
        """A pod of the run, owned by whatever the run created first."""
        owners = [
            {"uid": one["metadata"]["uid"]}
            for one in self.objects.values()
            if one.get("kind") in ("MPIJob", "Job", "Workflow")
        ]
        self.objects[f"{NAMESPACE}/pods/{name}"] = {
            "metadata": {
                "name": name, "uid": name, "labels": {"lockstep.example/role": role},
                "ownerReferences": owners,
            },
            "spec": {"nodeName": node, "containers": [{"name": "ranks"}]},
            "status": {"phase": "Running", **status},
        }  # fmt: skip

    def _asked(self, verb: str, path: str) -> None:
        self.asked.append(f"{verb} {path}")
        if self.fails:
            raise self.fails.pop(0)


def node(name: str = "n", *, gpus: int = 8, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def claim(mode: str = "ReadWriteMany", phase: str = "Bound") -> dict[str, Any]:
    return {"metadata": {}, "spec": {"accessModes": [mode]}, "status": {"phase": phase}}


AWAY = UnreachableError("the API server x does not answer: refused")


@pytest.fixture
def spec() -> RunSpec:
    return RunSpec(RUN, "gpt", Layout(4, 2, 8), 20, 0, device="cuda", pace=False)


@pytest.fixture
def settings() -> Settings:
    return Settings("registry.example/lockstep-workloads:1", "registry.example/lockstep-watch:1")


@pytest.fixture
def cluster(settings: Settings) -> FakeCluster:
    """One with four nodes of 8 GPUs, a claim, and everything served and allowed."""
    assert rights(settings)
    served = {
        "/apis/kubeflow.org/v2beta1": "mpijobs",
        "/apis/batch/v1": "jobs",
        "/apis/argoproj.io/v1alpha1": "workflows",
    }
    return FakeCluster({
        NAMESPACE: {"metadata": {"name": "lockstep", "labels": {}}},
        f"{NAMESPACE}/persistentvolumeclaims/lockstep-runs": claim(),
        **{path: {"resources": [{"name": name}]} for path, name in served.items()},
        **{f"/api/v1/nodes/n{index}": node(f"n{index}") for index in range(4)},
    })  # fmt: skip
