"""What goes wrong while nodes are written to: conflicts, vanished nodes, kills, no API."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep.watch.kubernetes.applying import TRIES, Result
from lockstep.watch.kubernetes.client import RIGHTS, Cluster
from tests.cluster.asking import Api, a_node
from tests.cluster.fake_api import ADMIN, FakeApi, StatusError
from tests.cluster.node_conditions import SLOW, XID, Scene, events_about, faults_of, statuses

NAMES = ["n0", "n1", "n2", "n3"]
KILLS = 100


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    with FakeApi().running() as running:
        yield running


@pytest.fixture
def api(fake: FakeApi, tmp_path: Path) -> Api:
    found = Api(fake.url, ADMIN, fake.kubeconfig(tmp_path))
    for name in NAMES:
        found.ask("POST", "/api/v1/nodes", a_node(name))
    return found


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockstep.watch.kubernetes.loop.PAUSE_SECONDS", 0.0)


def _patches(fake: FakeApi, name: str) -> int:
    return fake.calls.count(("PATCH", f"/api/v1/nodes/{name}/status"))


def test_a_conflict_on_every_patch_ends_and_says_so(
    fake: FakeApi, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    def conflict(method: str, path: str) -> None:
        if (method, path) == ("PATCH", "/api/v1/nodes/n0/status"):
            raise StatusError(409, "the object has been modified")

    fake.before = conflict
    acting = Scene(NAMES, {"n0": (XID,), "n1": (XID,)}).acting(Cluster(api.kubeconfig))

    assert acting.cycle()

    assert TRIES == _patches(fake, "n0")
    assert {Result.CONFLICT: 1, Result.DONE: 3} == acting.results
    assert "n0: nothing written" in caplog.text
    assert {} == statuses(api, "n0")
    assert "True" == statuses(api, "n1")["GpuDegraded"]


def test_a_conflict_with_the_kubelet_is_tried_again(fake: FakeApi, api: Api) -> None:
    left = [2]

    def kubelet(method: str, path: str) -> None:
        if method == "PATCH" and path.endswith("n0/status") and left[0]:
            left[0] -= 1
            fake.touch("nodes", "", "n0")

    fake.before = kubelet
    Scene(NAMES, {"n0": (XID,)}).acting(Cluster(api.kubeconfig)).cycle()

    assert "True" == statuses(api, "n0")["GpuDegraded"]


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_node_that_vanishes_is_not_written_to_and_neither_is_its_successor(
    fake: FakeApi, api: Api, comes_back: bool
) -> None:
    def vanish(method: str, path: str) -> None:
        if method == "PATCH" and path.endswith("n0/status"):
            fake.before = lambda method, path: None
            api.ask("DELETE", "/api/v1/nodes/n0")
            if comes_back:
                api.ask("POST", "/api/v1/nodes", a_node("n0"))

    fake.before = vanish
    acting = Scene(NAMES, {"n0": (XID,)}).acting(Cluster(api.kubeconfig))

    assert acting.cycle()

    assert 1 == acting.results[Result.GONE]
    assert 3 == acting.results[Result.DONE]
    if comes_back:
        assert {} == statuses(api, "n0")


def test_a_node_that_a_human_takes_out_meanwhile_is_left_alone(fake: FakeApi, api: Api) -> None:
    def exclude(method: str, path: str) -> None:
        if method == "PATCH" and path.endswith("n0/status"):
            fake.before = lambda method, path: None
            item = fake.objects["nodes", "", "n0"]
            item["metadata"]["labels"]["lockstep.example/exclude"] = "yes"
            fake.touch("nodes", "", "n0")

    fake.before = exclude
    Scene(NAMES, {"n0": (XID,)}).acting(Cluster(api.kubeconfig)).cycle()

    assert {} == statuses(api, "n0")


def test_while_the_api_is_away_nothing_ends_and_afterwards_it_goes_on(
    fake: FakeApi, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    def away(method: str, path: str) -> None:
        raise StatusError(503, "the server is currently unable to handle the request")

    acting = Scene(NAMES, {"n0": (XID,)}).acting(Cluster(api.kubeconfig))
    fake.before = away
    assert not acting.cycle()
    assert not acting.cycle()
    fake.before = lambda method, path: None
    assert acting.cycle()

    assert 1 == caplog.text.count("no finding is written: GET")
    assert "True" == statuses(api, "n0")["GpuDegraded"]


def test_an_address_where_nobody_listens_is_a_sentence(tmp_path: Path) -> None:
    with FakeApi().running() as gone:
        kubeconfig = gone.kubeconfig(tmp_path)
    acting = Scene(NAMES).acting(Cluster(kubeconfig))

    assert not acting.cycle()
    assert "does not answer" in acting.trouble


@pytest.mark.parametrize("missing", ["nodes", "nodes/status", "events", "leases"])
def test_without_a_right_nothing_is_written_and_it_is_said_once(
    fake: FakeApi, api: Api, tmp_path: Path, caplog: pytest.LogCaptureFixture, missing: str
) -> None:
    rights = {"nodes": ("get", "list"), "nodes/status": ("patch",), "events": ("create",),
              "leases": ("get", "create", "patch")}  # fmt: skip
    fake.rights["t"] = {what: verbs for what, verbs in rights.items() if what != missing}
    acting = Scene(NAMES, {"n0": (XID,)}).acting(Cluster(fake.kubeconfig(tmp_path, "t")))

    acting.cycle()
    acting.cycle()

    assert "the account lacks that right" in acting.trouble
    assert 1 == caplog.text.count("no finding is written:")
    assert {} == statuses(api, "n0")


def test_a_lease_that_is_gone_is_told_where_none_may_be_made(
    fake: FakeApi, api: Api, tmp_path: Path
) -> None:
    fake.rights["t"] = {one.resource: one.verbs for one in RIGHTS}
    acting = Scene(NAMES).acting(Cluster(fake.kubeconfig(tmp_path, "t")))

    acting.cycle()

    assert "there is no lease lockstep/lockstep-nodes, which the chart brings" in acting.trouble
    assert {} == statuses(api, "n0")


def _refusing(*names: str, code: int = 403, message: str = "") -> Callable[[str, str], None]:
    def refuse(method: str, path: str) -> None:
        if method == "PATCH" and path.removesuffix("/status").rpartition("/")[2] in names:
            raise StatusError(code, message or 'admission webhook "x" denied the request: no')

    return refuse


def test_a_node_whose_patch_is_refused_does_not_stop_the_others(
    fake: FakeApi, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    fake.before = _refusing("n0")
    acting = Scene(NAMES, {"n1": (XID,)}).acting(Cluster(api.kubeconfig))

    for _ in range(3):
        assert acting.cycle()

    assert ("", ["n0"]) == (acting.trouble, list(acting.failed))
    assert {Result.REFUSED: 3, Result.DONE: 3} == acting.results
    assert "True" == statuses(api, "n1")["GpuDegraded"]
    assert 1 == caplog.text.count("n0: nothing written")
    assert "lacks that right" not in caplog.text


def test_a_webhook_that_refuses_every_node_is_told_as_what_it_is(fake: FakeApi, api: Api) -> None:
    fake.before = _refusing(*NAMES)
    acting = Scene(NAMES).acting(Cluster(api.kubeconfig))

    acting.cycle()

    assert 'admission webhook "x" denied the request: no' in acting.trouble
    assert "lacks that right" not in acting.trouble


@pytest.mark.parametrize(
    ("code", "message"),
    [(500, 'failed calling webhook "x"'), (403, 'User "u" cannot patch resource "nodes/status"')],
)
def test_nodes_that_fail_come_last_so_that_all_others_are_written(
    fake: FakeApi, api: Api, code: int, message: str
) -> None:
    fake.before = _refusing("n0", "n1", code=code, message=message)
    acting = Scene(NAMES).acting(Cluster(api.kubeconfig))

    for _ in range(4):
        acting.cycle()

    assert [False, False, True, True] == [bool(statuses(api, name)) for name in NAMES]
    assert message in acting.trouble


class Killed(BaseException):
    """As kill -9: nothing that the process would do afterwards happens."""


class Mortal:
    """A cluster whose user dies at a certain call: before it arrives, or before its answer does."""

    def __init__(self, cluster: Cluster, calls: int, *, answered: bool) -> None:
        self._cluster, self._left, self._answered = cluster, calls, answered

    def __getattr__(self, name: str) -> Any:
        def call(*words: Any) -> Any:
            self._left -= 1
            if self._left < 0 and not self._answered:
                raise Killed
            found = getattr(self._cluster, name)(*words)
            if self._left < 0:
                raise Killed
            return found

        return call


STORY: tuple[dict[str, Any], ...] = (
    {}, {"n0": (XID,)}, {"n0": (XID, SLOW)}, {"n0": (SLOW,), "n1": (XID,)}, {}, {},
)  # fmt: skip
CYCLES = 5
"""Of each part of the story, 460 s apart: what is over is over by the third."""


def _told(api: Api, chance: random.Random | None) -> tuple[Any, int]:
    """How a story ends for the nodes, and how often the process was killed in it."""
    cluster = Cluster(api.kubeconfig)
    scene, kills = Scene(NAMES), 0
    acting = scene.acting(cluster)
    for faults in STORY:
        scene.faults = faults
        for cycle in range(CYCLES):
            if chance is not None and cycle < 2:
                for _ in range(2):
                    mortal = Mortal(cluster, chance.randrange(9), answered=chance.random() < 0.5)
                    try:
                        scene.acting(mortal, me=f"p{kills}").cycle()
                    except Killed:
                        kills += 1
                acting = scene.acting(cluster, me=f"q{kills}")
            acting.cycle()
            scene.now += 460
    found = [(statuses(api, name), set(json.loads(faults_of(api, name) or "{}"))) for name in NAMES]
    return (found, [one[:2] for one in events_about(api, *NAMES)]), kills


def test_who_is_killed_at_any_point_leaves_the_same_nodes_and_events(
    api: Api, tmp_path: Path
) -> None:
    expected, _ = _told(api, None)
    chance, kills = random.Random(7), 0
    while kills < KILLS:
        with FakeApi().running() as fake:
            other = Api(fake.url, ADMIN, fake.kubeconfig(tmp_path))
            for name in NAMES:
                other.ask("POST", "/api/v1/nodes", a_node(name))
            actual, times = _told(other, chance)
        kills += times

        assert expected == actual
