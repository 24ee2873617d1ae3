"""A run as it would be put onto a cluster, and a cluster that answers from memory."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from lockstep.workloads.launch.kubernetes.cluster import RefusedError, UnreachableError
from lockstep.workloads.launch.kubernetes.settings import Settings
from lockstep.workloads.launch.kubernetes.submission import rights
from lockstep.workloads.spec import Layout, RunSpec
from tests.cluster.controllers import DNS_1035, DNS_1123_SUBDOMAIN, InvalidError, argo, kueue

RUN = "gpt-20260101T000000-abcd"
NAMESPACE = "/api/v1/namespaces/lockstep-runs"


@dataclass(slots=True)
class FakeCluster:
    """Objects by path; lists by the path above them. What is created appears there.

    That it selects, refuses a name twice or one that is none, and keeps what has another uid, as
    the API does, is what tests/cluster/test_launchers_contract.py holds against a real one. Kueue
    and Argo are installed there, as far as tests/cluster/controllers says what they do.

    Attributes:
        fails: The next answers that do not come.
        asked: Every call, as `VERB path`.
        lost: The next objects are created, and nobody is told.
    """

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    fails: list[Exception] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    lost: list[Exception] = field(default_factory=list)
    uids: Iterator[int] = field(default_factory=count)

    def read(self, path: str, **query: str) -> dict[str, Any]:
        self._asked("GET", path)
        if path in self.objects:
            return deepcopy(self.objects[path])
        below = {each: one for each, one in self.objects.items() if each.startswith(f"{path}/")}
        if path.rpartition("/")[2] in ("pods", "nodes", "resourcequotas", "resourceflavors"):
            chosen = query.get("labelSelector", "")
            found = [
                below[each] for each in sorted(below) if each.count("/") == path.count("/") + 1
            ]
            return {"items": [deepcopy(each) for each in found if selected(each, chosen)]}
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
        name = made["metadata"]["name"]
        try:
            made = admitted(made)
        except InvalidError as error:
            raise RefusedError(422, f"{made['kind']} {name} is invalid: {error}") from None
        if f"{path}/{name}" in self.objects:
            raise RefusedError(409, f'{path} "{name}" already exists')
        made["metadata"]["uid"] = f"uid-{next(self.uids)}"
        self.objects[f"{path}/{name}"] = made
        if self.lost:
            raise self.lost.pop(0)
        return deepcopy(made)

    def delete(self, path: str, uid: str = "") -> None:
        self._asked("DELETE", path)
        if uid and path in self.objects and self.objects[path]["metadata"]["uid"] != uid:
            return
        gone = self.objects.pop(path, None)
        for each, one in list(self.objects.items()):
            owners = one.get("metadata", {}).get("ownerReferences", ())
            if gone and any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                self.delete(each)

    def pod(self, name: str, *, role: str = "worker", node: str = "", **status: Any) -> None:
        """A pod of the run, owned by the chain if it is a step, by the run otherwise."""
        kinds = ("Workflow",) if role == "step" else ("MPIJob", "Job")
        owners = [
            {"uid": one["metadata"]["uid"]}
            for one in self.objects.values()
            if one.get("kind") in kinds
        ]
        self.objects[f"{NAMESPACE}/pods/{name}"] = {
            "metadata": {
                "name": name, "uid": name, "ownerReferences": owners,
                "labels": {"lockstep.example/run": RUN, "lockstep.example/role": role},
            },
            "spec": {"nodeName": node, "containers": [{"name": "ranks"}]},
            "status": {"phase": "Running", **status},
        }  # fmt: skip

    def _asked(self, verb: str, path: str) -> None:
        self.asked.append(f"{verb} {path}")
        if self.fails:
            raise self.fails.pop(0)


def admitted(made: dict[str, Any]) -> dict[str, Any]:
    """What the API and the webhooks make of an object that is created.

    Raises:
        InvalidError: They refuse it.
    """
    name = made["metadata"]["name"]
    form = DNS_1035 if made["kind"] == "Service" else DNS_1123_SUBDOMAIN
    if not form.fullmatch(name):
        raise InvalidError([f"metadata.name: Invalid value: {name!r}"])
    if made["kind"] == "Workflow":
        return argo.admitted(made)
    return kueue.admitted(made) if made["kind"] in kueue.SUSPENDS else made


def selected(each: Mapping[str, Any], selector: str) -> bool:
    """By `key=value,…`; empty = all."""
    labels = each.get("metadata", {}).get("labels", {})
    wanted = [one.partition("=") for one in selector.split(",") if one]
    return all(labels.get(key) == value for key, _, value in wanted)


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
        NAMESPACE: {"metadata": {"name": "lockstep-runs", "labels": {}}},
        f"{NAMESPACE}/persistentvolumeclaims/lockstep-runs": claim(),
        **{path: {"resources": [{"name": name}]} for path, name in served.items()},
        **{f"/api/v1/nodes/n{index}": node(f"n{index}") for index in range(4)},
    })  # fmt: skip
