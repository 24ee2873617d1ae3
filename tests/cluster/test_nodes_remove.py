"""`lockstep nodes --remove`, on the fake API and on a real server."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.contract.kubernetes import FAULTS, LEASE
from lockstep.watch.kubernetes import removing
from lockstep.watch.kubernetes.shapes import ConflictError
from tests.cluster.asking import MERGE, STRATEGIC, Api
from tests.cluster.fake_api import ADMIN, FakeApi
from tests.cluster.node_conditions import (
    LEASES,
    XID,
    Scene,
    cluster_of,
    forget_lease,
    statuses,
)

NUMBERS = count()
SELECTOR = "test=remove"
THEIRS = {"type": "x/Theirs", "status": "True", "reason": "T", "message": "t",
          "lastHeartbeatTime": "2026-01-01T00:00:00Z",
          "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.cluster)])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    if request.param == "fake":
        with FakeApi().running() as fake:
            yield Api(fake.url, ADMIN, fake.kubeconfig(tmp_path))
    else:
        real = request.getfixturevalue("cluster")
        found = Api(real.url, real.tokens["admin"], real.kubeconfig())
        found.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "lockstep"}})
        yield found
        forget_lease(found)


@pytest.fixture
def names(api: Api) -> Iterator[list[str]]:
    """Three nodes; on the first, somebody else has a condition and an annotation."""
    made = [f"removing-{next(NUMBERS)}" for _ in range(3)]
    theirs = {"metadata": {"annotations": {"x/theirs": "1"}}, "status": {"conditions": [THEIRS]}}
    with ExitStack() as stack:
        for name in made:
            stack.enter_context(api.node(name, test="remove"))
        assert 200 == api.ask("PATCH", f"/api/v1/nodes/{made[0]}/status", theirs, STRATEGIC)[0]
        yield made


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removing, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(removing, "LOOK_SECONDS", 0.05)


def _words(api: Api, *more: str) -> tuple[str, ...]:
    return ("nodes", "--remove", "--kubeconfig", str(api.kubeconfig), *more)


def _conditions(api: Api, name: str) -> dict[str, Any]:
    """Of others than kubelets and controllers."""
    found = api.read(f"/api/v1/nodes/{name}")["status"]["conditions"]
    return {one["type"]: one["status"] for one in found if "/" in one["type"]}


def _lease(api: Api, **more: Any) -> None:
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE, **more}, "spec": {}}  # fmt: skip
    assert api.ask("POST", LEASES, body)[0] in (200, 201)


def test_a_condition_is_deleted_by_its_type_and_an_annotation_by_nothing(
    api: Api, names: list[str]
) -> None:
    path = f"/api/v1/nodes/{names[0]}"
    body = {"metadata": {"annotations": {"x/theirs": None, "x/none": None}},
            "status": {"conditions": [{"$patch": "delete", "type": "x/Theirs"},
                                      {"$patch": "delete", "type": "x/None"}]}}  # fmt: skip

    assert 200 == api.ask("PATCH", f"{path}/status", body, STRATEGIC)[0]

    found = api.read(path)
    assert {} == _conditions(api, names[0])
    assert "Ready" in {one["type"] for one in found["status"]["conditions"]}
    assert "x/theirs" not in (found["metadata"].get("annotations") or {})


def test_a_lease_is_deleted_only_as_it_was_read(api: Api) -> None:
    _lease(api)
    cluster = cluster_of(api)
    version = (cluster.lease("lockstep", LEASE) or {})["metadata"]["resourceVersion"]
    note = {"metadata": {"annotations": {"a": "b"}}}
    assert 200 == api.ask("PATCH", f"{LEASES}/{LEASE}", note, MERGE)[0]

    with pytest.raises(ConflictError):
        cluster.delete_lease("lockstep", LEASE, version)
    version = (cluster.lease("lockstep", LEASE) or {})["metadata"]["resourceVersion"]
    for _ in range(2):
        cluster.delete_lease("lockstep", LEASE, version)
    assert cluster.lease("lockstep", LEASE) is None


def test_an_empty_lease_of_a_chart_is_taken_and_kept(api: Api, names: list[str]) -> None:
    _lease(api, labels={"app.kubernetes.io/managed-by": "Helm"})
    acting = Scene(names, {names[0]: (XID,)}).acting(cluster_of(api), SELECTOR)

    assert acting.cycle()

    assert "" == acting.trouble
    assert "me" == api.read(f"{LEASES}/{LEASE}")["spec"]["holderIdentity"]
    assert "True" == statuses(api, names[0])["GpuDegraded"]


def test_all_of_ours_goes_and_nothing_of_others(api: Api, names: list[str], lockstep) -> None:  # type: ignore[no-untyped-def]
    assert 0 == lockstep(*_words(api)).code  # what other tests left on other nodes
    acting = Scene(names, {names[0]: (XID,)}).acting(cluster_of(api), SELECTOR)
    acting.cycle()
    acting.stop()
    before = api.read(f"/api/v1/nodes/{names[0]}")["metadata"]["resourceVersion"]

    told = lockstep(*_words(api, "--dry-run"))
    assert 0 == told.code, told.err
    assert f"{names[0]}: Healthy, GpuDegraded" in told.out
    assert "would be removed from 3 nodes" in told.out
    assert "lease lockstep/lockstep-nodes would be deleted" in told.out
    assert before == api.read(f"/api/v1/nodes/{names[0]}")["metadata"]["resourceVersion"]

    done = lockstep(*_words(api))
    assert 0 == done.code, done.err
    assert "removed from 3 nodes" in done.out
    assert "lease lockstep/lockstep-nodes deleted" in done.out
    assert {"x/Theirs": "True"} == _conditions(api, names[0])
    assert [{}, {}] == [_conditions(api, name) for name in names[1:]]
    annotations = [api.read(f"/api/v1/nodes/{name}")["metadata"].get("annotations") or {}
                   for name in names]  # fmt: skip
    assert "1" == annotations[0]["x/theirs"]
    assert [] == [name for one in annotations for name in one if name == FAULTS]
    assert 404 == api.ask("GET", f"{LEASES}/{LEASE}")[0]

    again = lockstep(*_words(api))
    assert 0 == again.code, again.err
    assert "removed from 0 nodes" in again.out
