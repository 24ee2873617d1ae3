"""What the API does that acting on nodes rests on: the same on our fake and on a real server."""

import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lockstep.watch.kubernetes.client import Cluster
from lockstep.watch.kubernetes.shapes import ConflictError, GoneError
from tests.cluster.asking import JSON_PATCH, STRATEGIC, Api, a_node
from tests.cluster.fake_api import ADMIN, FakeApi

NUMBERS = count()
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.cluster)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    with FakeApi().running() as running:
        yield running


@pytest.fixture
def api(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    if kind == "fake":
        fake = request.getfixturevalue("fake")
        yield Api(fake.url, ADMIN, fake.kubeconfig(tmp_path))
    else:
        cluster = request.getfixturevalue("cluster")
        yield Api(cluster.url, cluster.tokens["admin"], cluster.kubeconfig())


@pytest.fixture
def guard(kind: str, request: pytest.FixtureRequest, api: Api) -> Callable[[str], None]:
    """Waits until a disruption budget guards a pod; the fake has no controllers and is told."""

    def wait(name: str) -> None:
        if kind == "fake":
            request.getfixturevalue("fake").guarded.add(name)
            return
        until = time.monotonic() + 60
        while time.monotonic() < until:
            phase = api.read(f"{PODS}/{name}")["status"].get("phase")
            guards = api.read(f"{BUDGET}/{name}").get("status", {}).get("currentHealthy")
            if (phase, guards) == ("Running", 1):
                return
            time.sleep(0.2)
        raise TimeoutError(f"{name} does not run")

    return wait


@pytest.fixture
def node(api: Api) -> Iterator[dict[str, Any]]:
    with api.node(f"contract-{next(NUMBERS)}", colour="blue") as made:
        yield made


def _path(node: dict[str, Any]) -> str:
    return f"/api/v1/nodes/{node['metadata']['name']}"


def _condition(name: str, status: str) -> dict[str, str]:
    return {"type": name, "status": status, "reason": "T", "message": "t",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip


def _statuses(api: Api, node: dict[str, Any]) -> dict[str, str]:
    conditions = api.read(_path(node))["status"]["conditions"]
    return {one["type"]: one["status"] for one in conditions if one["type"].startswith("x/")}


def test_conditions_merge_by_type(api: Api, node: dict[str, Any]) -> None:
    for name, status in (("x/A", "True"), ("x/B", "True"), ("x/A", "False")):
        body = {"status": {"conditions": [_condition(name, status)]}}
        assert api.ask("PATCH", _path(node) + "/status", body, STRATEGIC)[0] == 200

    assert {"x/A": "False", "x/B": "True"} == _statuses(api, node)


def test_an_annotation_comes_with_a_condition_in_one_patch_of_the_status(
    api: Api, node: dict[str, Any]
) -> None:
    body = {
        "metadata": {"annotations": {"x/faults": "{}"}},
        "status": {"conditions": [_condition("x/A", "True")]},
        "spec": {"unschedulable": True},
    }

    assert api.ask("PATCH", _path(node) + "/status", body, STRATEGIC)[0] == 200

    found = api.read(_path(node))
    assert "{}" == found["metadata"]["annotations"]["x/faults"]
    assert "unschedulable" not in found["spec"]  # spec is not of the status


def test_a_patch_of_a_node_leaves_its_status_alone(api: Api, node: dict[str, Any]) -> None:
    body = {"status": {"conditions": [_condition("x/A", "True")]},
            "metadata": {"labels": {"a": "b"}}}  # fmt: skip

    assert api.ask("PATCH", _path(node), body, STRATEGIC)[0] == 200

    assert {} == _statuses(api, node)
    assert "b" == api.read(_path(node))["metadata"]["labels"]["a"]


def test_taints_are_one_list_that_a_patch_replaces(api: Api, node: dict[str, Any]) -> None:
    for key in ("a", "b"):
        body = {"spec": {"taints": [{"key": key, "effect": "PreferNoSchedule"}]}}
        assert api.ask("PATCH", _path(node), body, STRATEGIC)[0] == 200

    keys = {one["key"] for one in api.read(_path(node))["spec"]["taints"]}
    assert "b" in keys
    assert "a" not in keys


def test_a_patch_of_an_older_version_is_a_conflict(api: Api, node: dict[str, Any]) -> None:
    api.ask("PATCH", _path(node), {"metadata": {"labels": {"new": "yes"}}}, STRATEGIC)
    before = node["metadata"]["resourceVersion"]
    body = {
        "metadata": {"resourceVersion": before},
        "status": {"conditions": [_condition("x/A", "True")]},
    }

    with pytest.raises(ConflictError):
        Cluster(api.kubeconfig).patch_status(node["metadata"]["name"], body)
    assert {} == _statuses(api, node)


def test_a_json_patch_whose_test_fails_changes_nothing(api: Api, node: dict[str, Any]) -> None:
    steps = [
        {"op": "test", "path": "/metadata/labels/colour", "value": "red"},
        {"op": "add", "path": "/metadata/labels/colour", "value": "green"},
    ]

    assert 422 == api.ask("PATCH", _path(node), steps, JSON_PATCH)[0]
    assert "blue" == api.read(_path(node))["metadata"]["labels"]["colour"]


def test_what_is_not_there_is_gone(api: Api) -> None:
    cluster = Cluster(api.kubeconfig)

    with pytest.raises(GoneError):
        cluster.node("nobody")
    with pytest.raises(GoneError):
        cluster.patch_status("nobody", {"status": {"conditions": [_condition("x/A", "True")]}})
    assert cluster.lease("default", "nobody") is None


def test_a_name_is_never_a_path(api: Api, node: dict[str, Any]) -> None:
    for name in ("../../api/v1/nodes", f"{node['metadata']['name']}/status", "a?b=c", "a%2fb"):
        with pytest.raises(GoneError):
            Cluster(api.kubeconfig).node(name)


def test_a_label_selector_chooses(api: Api, node: dict[str, Any]) -> None:
    with api.node(f"contract-{next(NUMBERS)}", colour="red"):
        chosen = Cluster(api.kubeconfig).nodes("colour=blue")

    assert [node["metadata"]["name"]] == [one["metadata"]["name"] for one in chosen]


def test_a_list_comes_in_parts(
    api: Api, node: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.watch.kubernetes.client.PAGE", 1)
    with api.node(f"contract-{next(NUMBERS)}", colour="blue") as other:
        chosen = Cluster(api.kubeconfig).nodes("colour=blue")

    assert {each["metadata"]["name"] for each in (node, other)} == {
        one["metadata"]["name"] for one in chosen
    }


def _event(name: str, about: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": about, "uid": about},
        "reason": "T", "message": "t", "type": "Normal", "source": {"component": "t"},
    }  # fmt: skip


def test_an_event_about_a_node_lies_in_default(api: Api, node: dict[str, Any]) -> None:
    name = node["metadata"]["name"]
    path = "/api/v1/namespaces/{}/events"

    assert api.ask("POST", path.format("default"), _event(f"{name}.0a", name))[0] in (200, 201)
    assert 422 == api.ask("POST", path.format("kube-system"), _event(f"{name}.0b", name))[0]


def test_an_event_that_exists_is_not_told_twice(api: Api, node: dict[str, Any]) -> None:
    name = node["metadata"]["name"]
    for _ in range(2):
        Cluster(api.kubeconfig).create_event(_event(f"{name}.0c", name))

    items = api.read("/api/v1/namespaces/default/events")["items"]
    assert 1 == [one["metadata"]["name"] for one in items].count(f"{name}.0c")


def test_of_two_who_want_a_lease_one_gets_it(api: Api) -> None:
    name = f"contract-{next(NUMBERS)}"
    cluster = Cluster(api.kubeconfig)
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 1}}  # fmt: skip
    made = cluster.create_lease("default", body)
    try:
        with pytest.raises(ConflictError):
            cluster.create_lease("default", body)
        version = made["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": "b"}}
        cluster.patch_lease("default", name, patch)
        with pytest.raises(ConflictError):
            cluster.patch_lease("default", name, patch)
        found = cluster.lease("default", name)
        assert found is not None
        assert "b" == found["spec"]["holderIdentity"]
    finally:
        api.ask("DELETE", f"{LEASES}/{name}")


def test_a_patch_of_a_node_that_came_back_as_another_is_a_conflict(api: Api) -> None:
    name = f"contract-{next(NUMBERS)}"
    with api.node(name) as first:
        pass
    with api.node(name) as second:
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        body = {
            "metadata": {"resourceVersion": first["metadata"]["resourceVersion"]},
            "status": {"conditions": [_condition("x/A", "True")]},
        }
        with pytest.raises(ConflictError):
            Cluster(api.kubeconfig).patch_status(name, body)


def test_a_watch_tells_what_changes(api: Api, node: dict[str, Any]) -> None:
    version, heard = node["metadata"]["resourceVersion"], threading.Event()
    name = node["metadata"]["name"]
    request = urllib.request.Request(
        f"{api.url}/api/v1/nodes?watch=1&resourceVersion={version}",
        headers={"Authorization": f"Bearer {api.token}"},
    )
    context = ssl._create_unverified_context() if api.url.startswith("https") else None

    def listen() -> None:
        with urllib.request.urlopen(request, timeout=60, context=context) as lines:
            for line in lines:
                change = json.loads(line)
                metadata = change["object"]["metadata"]
                if metadata["name"] == name and metadata["labels"].get("heard") == "yes":
                    heard.set()
                    return

    listener = threading.Thread(target=listen)
    listener.start()
    api.ask("PATCH", _path(node), {"metadata": {"labels": {"heard": "yes"}}}, STRATEGIC)

    listener.join(10)
    assert heard.is_set()


def test_a_name_with_a_full_stop_at_its_end_is_refused(api: Api) -> None:
    assert 422 == api.ask("POST", "/api/v1/nodes", a_node("ends."))[0]


BUDGET = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets"
PODS = "/api/v1/namespaces/default/pods"


def test_an_eviction_that_a_disruption_budget_forbids_is_put_off(
    api: Api, guard: Callable[[str], None]
) -> None:
    name = f"contract-{next(NUMBERS)}"
    container = {"name": "t", "image": "t"}
    pod = {
        "metadata": {"name": name, "labels": {"guarded": name}},
        "spec": {"containers": [container], "nodeName": "hollow-3"},
    }
    budget = {
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"guarded": name}}},
    }
    eviction = {"kind": "Eviction", "apiVersion": "policy/v1beta1", "metadata": {"name": name}}
    try:
        assert api.ask("POST", BUDGET, budget)[0] in (200, 201)
        assert api.ask("POST", PODS, pod)[0] in (200, 201)
        guard(name)

        assert 429 == api.ask("POST", f"{PODS}/{name}/eviction", eviction)[0]
        assert name == api.read(f"{PODS}/{name}")["metadata"]["name"]
    finally:
        api.ask("DELETE", f"{BUDGET}/{name}")
        api.ask("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
