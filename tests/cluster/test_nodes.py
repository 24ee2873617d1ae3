"""What `lockstep nodes` does to nodes, on the fake API and on a real server."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from lockstep.collector.contract.kubernetes import BREAKER, LEASE, PAUSE
from lockstep.watch.kubernetes.client import Cluster
from lockstep.watch.kubernetes.shapes import LacksRightError, Mode
from tests.cluster.asking import MERGE, Api
from tests.cluster.fake_api import ADMIN, FakeApi
from tests.cluster.node_conditions import (
    LEASES,
    SLOW,
    XID,
    Scene,
    cluster_of,
    events_about,
    faults_of,
    forget_lease,
    statuses,
)

NUMBERS = count()
SELECTOR = "test=nodes"
STRANGER = "lockstep-collector:lockstep-collector"
"""An account without any right."""


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
    """Four nodes."""
    made = [f"acting-{next(NUMBERS)}" for _ in range(4)]
    with ExitStack() as stack:
        for name in made:
            stack.enter_context(api.node(name, test="nodes"))
        yield made


def test_a_missing_right_is_told_as_one(
    api: Api, names: list[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if request.node.callspec.params["api"] == "fake":
        stranger = tmp_path / "stranger"
        stranger.write_text(api.kubeconfig.read_text().replace(ADMIN, "stranger"))
    else:
        stranger = request.getfixturevalue("cluster").kubeconfig(STRANGER)

    with pytest.raises(LacksRightError, match="the account lacks that right"):
        Cluster(stranger).patch_status(names[0], {})


DEGRADED = {"Healthy": "False", "GpuDegraded": "True", "NvlinkDegraded": "Unknown",
            "RdmaDegraded": "Unknown", "StragglerSuspect": "Unknown"}  # fmt: skip


def test_a_finding_becomes_a_condition_an_annotation_and_an_event(
    api: Api, names: list[str]
) -> None:
    scene = Scene(names, {names[0]: (XID,)})

    assert scene.acting(cluster_of(api), SELECTOR).cycle()

    assert DEGRADED == statuses(api, names[0])
    assert {"xid-1"} == set(json.loads(faults_of(api, names[0]) or ""))
    assert [(names[0], "NodeDegraded", "xid GPU 3: open in lockstep watch")] == events_about(
        api, *names
    )
    assert {"Unknown"} == set(statuses(api, names[1]).values())  # never healthy by default


def test_a_node_recovers_once_nothing_was_found_for_a_quarter_of_an_hour(
    api: Api, names: list[str]
) -> None:
    scene = Scene(names, {names[0]: (XID, SLOW)})
    acting = scene.acting(cluster_of(api), SELECTOR)
    acting.cycle()
    scene.faults = {}
    for seconds, expected in ((1, "False"), (898, "False"), (2, "True")):
        scene.now += seconds
        acting.cycle()
        assert expected == statuses(api, names[0])["Healthy"]

    assert "{}" == faults_of(api, names[0])
    assert ["NodeDegraded", "NodeRecovered"] == [one[1] for one in events_about(api, *names)]
    assert {"True"} == {statuses(api, name)["Healthy"] for name in names}


def test_a_heartbeat_is_written_every_few_minutes_and_nothing_else(
    api: Api, names: list[str]
) -> None:
    scene = Scene(names, {names[0]: (XID,)})
    acting = scene.acting(cluster_of(api), SELECTOR)
    versions = []
    for seconds in (0, 100, 139, 2):
        scene.now += seconds
        acting.cycle()
        conditions = api.read(f"/api/v1/nodes/{names[0]}")["status"]["conditions"]
        beats = [one["lastHeartbeatTime"] for one in conditions if "GpuDeg" in one["type"]]
        changed = [one["lastTransitionTime"] for one in conditions if "GpuDeg" in one["type"]]
        versions.append((beats, changed))

    assert versions[0] == versions[1] == versions[2]
    assert versions[2][0] != versions[3][0]
    assert versions[2][1] == versions[3][1]


def test_a_silent_node_is_unknown_and_keeps_its_fault(api: Api, names: list[str]) -> None:
    more = [f"acting-{next(NUMBERS)}" for _ in range(2)]
    with ExitStack() as stack:
        for name in more:
            stack.enter_context(api.node(name, test="nodes"))
        scene = Scene([*names, *more], {names[0]: (XID,)})
        acting = scene.acting(cluster_of(api), SELECTOR)
        acting.cycle()
        scene.now += 1000
        acting.cycle()
        assert "True" == statuses(api, names[1])["Healthy"]
        scene.nodes.remove(names[1])
        scene.faults = {}
        scene.now += 1000
        acting.cycle()

    assert "Unknown" == statuses(api, names[1])["Healthy"]
    assert "False" == statuses(api, names[0])["Healthy"]


def test_of_four_nodes_one_may_be_silent_and_of_two_silent_ones_nothing_is_known(
    api: Api, names: list[str]
) -> None:
    scene = Scene(names)
    acting = scene.acting(cluster_of(api), SELECTOR)
    acting.cycle()
    scene.now += 1000
    acting.cycle()
    scene.nodes, scene.faults = names[1:], {names[1]: (XID,)}
    acting.cycle()

    assert "" == acting.trouble
    assert "Unknown" == statuses(api, names[0])["Healthy"]
    assert DEGRADED["Healthy"] == statuses(api, names[1])["Healthy"]

    scene.nodes, scene.faults = names[2:], {names[2]: (XID,)}
    for _ in range(2):
        scene.now += 130
        acting.cycle()

    assert "only 2 of 4 nodes answer" == acting.trouble
    assert ["False", "True"] == [statuses(api, name)["Healthy"] for name in names[1:3]]
    assert "Unknown" == statuses(api, names[1])["NvlinkDegraded"]
    assert "{}" == faults_of(api, names[2])


def test_observe_writes_nothing_and_a_dry_run_only_events(api: Api, names: list[str]) -> None:
    scene = Scene(names, {names[0]: (XID,)})

    for mode, dry_run in ((Mode.OBSERVE, False), (Mode.ANNOTATE, True)):
        acting = scene.acting(cluster_of(api), SELECTOR, mode, dry_run=dry_run)
        acting.cycle()
        acting.cycle()

    assert {} == statuses(api, names[0])
    assert [(names[0], "NodeDegraded", "[dry-run] xid GPU 3: open in lockstep watch")] == (
        events_about(api, *names)
    )
    assert 404 == api.ask("GET", f"{LEASES}/{LEASE}")[0]


def test_of_two_processes_one_acts_and_the_other_follows(api: Api, names: list[str]) -> None:
    scene = Scene(names, {names[0]: (XID,)})
    first = scene.acting(cluster_of(api), SELECTOR, me="first", lease=60)
    second = scene.acting(cluster_of(api), SELECTOR, me="second", lease=60)
    for each in (first, second):
        each.cycle()
    assert ("", "first leads") == (first.trouble, second.trouble)

    first.stop()
    second.cycle()
    assert "" == second.trouble


def test_an_open_breaker_outlives_a_restart_until_a_human_resets_it(
    api: Api, names: list[str]
) -> None:
    scene = Scene(names, dict.fromkeys(names[:3], (XID,)))
    scene.acting(cluster_of(api), SELECTOR).cycle()
    scene.faults = {names[0]: (XID,)}
    restarted = scene.acting(cluster_of(api), SELECTOR)
    restarted.cycle()
    assert "the breaker is open: GpuDegraded on 3 of 4 nodes at once" == restarted.trouble
    assert {} == statuses(api, names[0])

    note = {"metadata": {"annotations": {BREAKER: "reset"}}}
    assert 200 == api.ask("PATCH", f"{LEASES}/{LEASE}", note, MERGE)[0]
    scene.now += 10
    scene.faults = {}
    restarted.cycle()
    scene.now += 10
    scene.faults = {names[0]: (SLOW,)}
    restarted.cycle()
    assert "True" == statuses(api, names[0])["StragglerSuspect"]


def test_what_is_still_open_after_a_reset_is_unknown_and_never_healthy(
    api: Api, names: list[str]
) -> None:
    scene = Scene(names, dict.fromkeys(names[:3], (XID,)))
    acting = scene.acting(cluster_of(api), SELECTOR)
    acting.cycle()
    scene.faults = {names[0]: (XID,)}
    note = {"metadata": {"annotations": {BREAKER: "reset"}}}
    assert 200 == api.ask("PATCH", f"{LEASES}/{LEASE}", note, MERGE)[0]
    for _ in range(3):
        scene.now += 500
        acting.cycle()

    assert ["Unknown", "True"] == [statuses(api, name)["Healthy"] for name in names[:2]]
    assert "Unknown" == statuses(api, names[0])["GpuDegraded"]


def test_a_human_pauses_it(api: Api, names: list[str]) -> None:
    scene = Scene(names)
    acting = scene.acting(cluster_of(api), SELECTOR)
    acting.cycle()
    note = {"metadata": {"annotations": {PAUSE: "firmware update"}}}
    assert 200 == api.ask("PATCH", f"{LEASES}/{LEASE}", note, MERGE)[0]
    scene.faults = {names[0]: (XID,)}
    acting.cycle()

    assert "paused: firmware update" == acting.trouble
    assert "Unknown" == statuses(api, names[0])["Healthy"]


def test_names_of_watch_that_are_no_nodes_lead_to_no_request(api: Api, names: list[str]) -> None:
    hostile = ["../../namespaces/lockstep", f"{names[1]}/status", "a b", "", "\x00", "☃", "x" * 999]
    scene = Scene([*names, *hostile], dict.fromkeys(hostile, (XID,)))

    acting = scene.acting(cluster_of(api), SELECTOR)
    assert acting.cycle()

    assert "" == acting.trouble
    assert {"Unknown"} == {status for name in names for status in statuses(api, name).values()}
