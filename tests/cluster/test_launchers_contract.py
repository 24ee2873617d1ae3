"""What the API does that launching rests on: the same on our fake and on a real server."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from lockstep.workloads.launch.kubernetes.api import ApiCluster
from lockstep.workloads.launch.kubernetes.cluster import Cluster, RefusedError, UnreachableError
from lockstep.workloads.launch.kubernetes.objects import Objects, TakenError
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings, is_hosts_name
from lockstep.workloads.launch.kubernetes.submission import submission
from lockstep.workloads.spec import Layout, RunSpec
from tests.workloads.launch.kubernetes.conftest import FakeCluster

pytestmark = pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
NUMBERS = count()
NAMESPACE = "default"
SERVICES, PODS = (f"/api/v1/namespaces/{NAMESPACE}/{each}" for each in ("services", "pods"))


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.cluster)])
def api(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.param == "fake":
        yield FakeCluster()
        return
    with closing(ApiCluster(request.getfixturevalue("cluster").kubeconfig())) as real:
        yield real


def service(name: str) -> dict[str, Any]:
    about = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "v1", "kind": "Service", "metadata": about,
        "spec": {"clusterIP": "None", "ports": [{"port": 1}]},
    }  # fmt: skip


def pod(name: str, **labels: str) -> dict[str, Any]:
    about = {"name": name, "namespace": NAMESPACE, "labels": labels}
    # Nobody places it, so that its deletion waits for no node.
    spec = {"schedulerName": "nobody", "containers": [{"name": "ranks", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def uid(api: Cluster, path: str) -> str:
    """Empty = it is not there."""
    try:
        return str(api.read(path)["metadata"]["uid"])
    except RefusedError as error:
        if error.status != 404:
            raise
        return ""


def test_a_name_is_given_once_and_the_first_is_untouched(api: Cluster) -> None:
    name = f"twice-{next(NUMBERS)}"
    first = api.create(SERVICES, service(name))["metadata"]["uid"]

    with pytest.raises(RefusedError) as told:
        api.create(SERVICES, service(name))
    assert 409 == told.value.status
    assert first == uid(api, f"{SERVICES}/{name}")
    api.delete(f"{SERVICES}/{name}")


@pytest.mark.parametrize("name", ["7b", "ends-", "Upper", "a.b"])
def test_a_service_is_refused_whose_name_no_host_may_have(api: Cluster, name: str) -> None:
    with pytest.raises(RefusedError) as told:
        api.create(SERVICES, service(name))

    assert 422 == told.value.status
    assert not is_hosts_name(name, 1) or name == "Upper"  # a run id is given in lower case


def test_a_deletion_takes_only_the_one_that_is_meant(api: Cluster) -> None:
    name = f"meant-{next(NUMBERS)}"
    path = f"{SERVICES}/{name}"
    first = api.create(SERVICES, service(name))["metadata"]["uid"]
    api.delete(path, "00000000-0000-0000-0000-000000000000")

    assert first == uid(api, path)
    api.delete(path, first)
    assert "" == uid(api, path)
    api.delete(path, first)
    second = api.create(SERVICES, service(name))["metadata"]["uid"]
    api.delete(path, first)
    assert second == uid(api, path) != first
    api.delete(path)


def test_a_selector_selects_by_all_of_its_labels(api: Cluster) -> None:
    run = f"r{next(NUMBERS)}"
    for name, labels in {"a": {"run": run, "role": "step"}, "b": {"run": run}, "c": {}}.items():
        api.create(PODS, pod(f"{run}-{name}", **labels))

    def selected(selector: str) -> list[str]:
        found = api.read(PODS, labelSelector=selector)["items"]
        return sorted(each["metadata"]["name"] for each in found)

    assert [f"{run}-a", f"{run}-b"] == selected(f"run={run}")
    assert [f"{run}-a"] == selected(f"run={run},role=step")
    for name in "abc":
        api.delete(f"{PODS}/{run}-{name}")


@dataclass
class Deaf:
    """A cluster that does what it is asked, and whose answer to a creation is lost."""

    cluster: Cluster

    def create(self, path: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self.cluster.create(path, manifest)
        raise UnreachableError("the API server x does not answer")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster, name)


def test_a_run_id_given_twice_is_refused_and_the_first_run_goes_on(api: Cluster) -> None:
    run = f"gpt-{next(NUMBERS)}"
    spec = RunSpec(run, "gpt", Layout(1, 1, 1), 20, 0, device="cpu")
    first, second, lost = (
        Settings(
            "i", namespace=NAMESPACE, kind=Kind.JOB, host_rings=False, submission=mark
        )
        for mark in ("first", "second", "lost")
    )  # fmt: skip
    own = Objects(api, submission(spec, first, []))
    own.create()
    there = uid(api, own.made.path)

    other = Objects(api, submission(spec, second, []))
    with pytest.raises(TakenError):
        other.create()
    assert not other.delete()
    assert there == own.uid == uid(api, own.made.path)

    assert own.delete()
    assert (None, False) == own.look()
    unheard = Objects(Deaf(api), submission(replace(spec, run=f"{run}-b"), lost, []))
    with pytest.raises(UnreachableError):
        unheard.create()
    assert "" == uid(api, unheard.made.path)
