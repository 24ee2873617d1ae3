"""What goes wrong while `lockstep nodes --remove` cleans nodes, on the fake API."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.collector.contract.kubernetes import FAULTS, LEASE
from lockstep.watch.kubernetes import removing
from tests.cluster.asking import Api, a_node
from tests.cluster.fake_api import ADMIN, FakeApi, StatusError
from tests.cluster.node_conditions import XID, Scene, cluster_of, faults_of, statuses

NAMES = ["n0", "n1", "n2"]


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    with FakeApi().running() as running:
        yield running


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removing, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(removing, "LOOK_SECONDS", 0.05)


def _words(api: Api, *more: str) -> tuple[str, ...]:
    return ("nodes", "--remove", "--kubeconfig", str(api.kubeconfig), *more)


@pytest.fixture
def three(fake: FakeApi, tmp_path: Path) -> Api:
    """Three nodes of a fake API that carry everything, and nobody acts any more."""
    found = Api(fake.url, ADMIN, fake.kubeconfig(tmp_path))
    for name in NAMES:
        found.ask("POST", "/api/v1/nodes", a_node(name))
    acting = Scene(NAMES, {"n0": (XID,)}).acting(cluster_of(found))
    acting.cycle()
    acting.stop()
    return found


def _holds(fake: FakeApi, me: str, seconds: int, renewed: str = "then") -> None:
    spec = {"holderIdentity": me, "leaseDurationSeconds": seconds, "renewTime": renewed}
    fake.objects["leases", "lockstep", LEASE]["spec"] = spec


def test_while_somebody_renews_the_lease_it_is_refused(fake, three, lockstep):  # type: ignore[no-untyped-def]
    _holds(fake, "pod-1", 15)
    looks = [0]

    def renew(method: str, path: str) -> None:
        if path.endswith(LEASE):
            looks[0] += 1
            _holds(fake, "pod-1", 15, renewed=str(looks[0] > 2))

    fake.before = renew
    found = lockstep(*_words(three))

    assert 69 == found.code
    assert "pod-1 acts on nodes" in found.err
    assert "kubectl -n lockstep scale deployment lockstep-nodes --replicas=0" in found.err
    assert 3 == sum(bool(statuses(three, name)) for name in NAMES)


def test_a_holder_that_died_does_not_hinder(fake, three, lockstep):  # type: ignore[no-untyped-def]
    _holds(fake, "pod-1", 1)

    found = lockstep(*_words(three))

    assert 0 == found.code, found.err
    assert [{}] * 3 == [statuses(three, name) for name in NAMES]


def test_excluded_nodes_may_be_cleaned_beside_who_acts(fake, three, lockstep):  # type: ignore[no-untyped-def]
    _holds(fake, "pod-1", 60)
    fake.objects["nodes", "", "n0"]["metadata"]["labels"]["lockstep.example/exclude"] = ""
    fake.before = lambda method, path: _holds(fake, "pod-1", 60, renewed=str(len(fake.calls)))

    found = lockstep(*_words(three, "--selector", "lockstep.example/exclude"))

    assert 0 == found.code, found.err
    assert "stays: --selector" in found.out
    assert [0, 5, 5] == [len(statuses(three, name)) for name in NAMES]


def test_a_lease_of_a_chart_stays(fake, three, lockstep):  # type: ignore[no-untyped-def]
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    fake.objects["leases", "lockstep", LEASE]["metadata"]["labels"] = labels

    found = lockstep(*_words(three))

    assert 0 == found.code, found.err
    assert "stays: it goes with the release" in found.out
    assert ("leases", "lockstep", LEASE) in fake.objects


def test_nodes_that_refuse_are_named_and_the_others_are_clean(fake, three, lockstep):  # type: ignore[no-untyped-def]
    def refuse(method: str, path: str) -> None:
        if method == "PATCH" and "/n0/" in path:
            raise StatusError(403, 'admission webhook "x" denied the request')

    fake.before = refuse
    found = lockstep(*_words(three))

    assert 69 == found.code
    assert "removed from 2 nodes, not from n0" in found.err
    assert 'admission webhook "x" denied' in found.err
    assert [5, 0, 0] == [len(statuses(three, name)) for name in NAMES]
    assert ("leases", "lockstep", LEASE) in fake.objects

    fake.before = lambda method, path: None
    assert 0 == lockstep(*_words(three)).code
    assert {} == statuses(three, "n0")


def test_a_conflict_is_tried_again_and_a_node_that_is_gone_is_clean(fake, three, lockstep):  # type: ignore[no-untyped-def]
    left = [2]

    def meddle(method: str, path: str) -> None:
        if method == "PATCH" and "/n0/" in path and left[0]:
            left[0] -= 1
            fake.touch("nodes", "", "n0")
        if method == "PATCH" and "/n1/" in path:
            del fake.objects["nodes", "", "n1"]

    fake.before = meddle
    found = lockstep(*_words(three))

    assert 0 == found.code, found.err
    assert {} == statuses(three, "n0")
    assert faults_of(three, "n2") is None


@pytest.mark.parametrize(
    ("rights", "said"),
    [
        ({}, "cannot list resource"),
        ({"nodes": ("list",), "leases": ("get",)}, "not from n0; the nodes after it were not"),
        ({"nodes": ("list",), "nodes/status": ("patch",), "leases": ("get",)},
         "the lease is left: DELETE"),
    ],
)  # fmt: skip
def test_an_account_that_may_not_is_told_what_is_left(  # type: ignore[no-untyped-def]
    rights, said, fake, three, lockstep, tmp_path
):
    fake.rights["t"] = rights
    mine = Api(fake.url, "t", fake.kubeconfig(tmp_path, "t"))

    found = lockstep(*_words(mine))

    assert 69 == found.code
    assert said in found.err
    assert "lacks that right" in found.err


def test_who_takes_the_lease_meanwhile_is_noticed(fake, three, lockstep):  # type: ignore[no-untyped-def]
    def take(method: str, path: str) -> None:
        if method == "DELETE":
            fake.touch("leases", "lockstep", LEASE)

    fake.before = take
    found = lockstep(*_words(three))

    assert 69 == found.code
    assert "another process took the lease lockstep/lockstep-nodes meanwhile" in found.err


@pytest.mark.parametrize("labels", [{}, {"app.kubernetes.io/managed-by": "Helm"}])
def test_a_lease_that_was_free_for_a_moment_only_is_noticed(labels, fake, three, lockstep):  # type: ignore[no-untyped-def]
    fake.objects["leases", "lockstep", LEASE]["metadata"]["labels"] = labels

    def take(method: str, path: str) -> None:
        if method == "PATCH":
            _holds(fake, "pod-2", 15)

    fake.before = take
    found = lockstep(*_words(three))

    assert 69 == found.code
    assert "another process took the lease lockstep/lockstep-nodes meanwhile" in found.err
    assert ("leases", "lockstep", LEASE) in fake.objects


def test_where_nobody_has_a_lease_it_says_that_the_namespace_may_be_another(three, lockstep):  # type: ignore[no-untyped-def]
    other = _words(three, "--namespace", "other")
    hint = "there is no lease other/lockstep-nodes; if it runs in another namespace, give"

    assert hint in lockstep(*other, "--dry-run").out
    found = lockstep(*other)
    assert 0 == found.code, found.err
    assert hint in found.out
    assert "another namespace" not in lockstep(*other).out, "nothing was there to remove"


@pytest.mark.parametrize("words", [["--once"], ["--mode", "annotate"]])
def test_what_does_not_go_with_it_is_said(words, three, lockstep):  # type: ignore[no-untyped-def]
    assert 64 == lockstep(*_words(three, *words)).code


def test_a_damaged_annotation_goes_too(fake, three, lockstep):  # type: ignore[no-untyped-def]
    item = fake.objects["nodes", "", "n1"]
    item["metadata"]["annotations"][FAULTS] = json.dumps(["not", "ours"])
    item["status"]["conditions"] = []

    assert 0 == lockstep(*_words(three)).code
    assert faults_of(three, "n1") is None
