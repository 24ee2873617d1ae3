"""Traces of dead runs are found; those of living ones are left alone."""

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.runs import leftovers
from lockstep.workloads.launch.processes import LOCK_FILE, OWNER_FILE
from lockstep.workloads.network.names import token
from lockstep.workloads.network.namespaces import Owner

START_TICKS = 4711


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, Path]:
    """A machine with process 7 only, whose name is hostile, and a cgroup v2 CPU controller."""
    places = {name: tmp_path / name for name in ("shared", "cgroups", "proc")}
    (places["proc"] / "7").mkdir(parents=True)
    fields = ["S", *["0"] * 18, str(START_TICKS), "0"]
    (places["proc"] / "7" / "stat").write_text(f"7 (a) b) {' '.join(fields)}")
    places["cgroups"].mkdir()
    (places["cgroups"] / "cgroup.controllers").write_text("cpu memory\n")
    places["shared"].mkdir()
    return places


def rings(machine: dict[str, Path], run: str, **owner: int) -> Path:
    folder = machine["shared"] / run
    folder.mkdir()
    (folder / "rank-0.ring").write_bytes(b"\0")
    if owner:
        (folder / OWNER_FILE).write_text(json.dumps(owner))
    return folder


def found(machine: dict[str, Path], **networks: Owner | None) -> list[str]:
    """Networks are given by token: those of this machine are another test's."""
    left = leftovers.find(*machine.values(), networks=lambda: networks)
    return [each.run for each in left]


def test_a_clean_machine_has_none(machine: dict[str, Path]) -> None:
    assert found(machine) == []


def test_a_living_run_is_left_alone(machine: dict[str, Path]) -> None:
    rings(machine, "alive", pid=7, start_ticks=START_TICKS)

    assert found(machine) == []


@pytest.mark.parametrize("owner", [{"pid": 8, "start_ticks": 1}, {"pid": 7, "start_ticks": 1}])
def test_a_dead_run_is_found_also_when_its_pid_was_reused(
    machine: dict[str, Path], owner: dict[str, int]
) -> None:
    rings(machine, "dead", **owner)

    assert found(machine) == ["dead"]


def test_ranks_without_a_launcher_live_while_one_of_them_holds_the_lock(
    machine: dict[str, Path],
) -> None:
    folder = rings(machine, "ranks", pid=8, start_ticks=1)
    with (folder / LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert [] == found(machine)

    assert ["ranks"] == found(machine)


def test_a_folder_without_an_owner_is_not_ours_to_judge(machine: dict[str, Path]) -> None:
    rings(machine, "foreign")

    assert found(machine) == []


def test_a_cgroup_with_a_process_is_left_alone(machine: dict[str, Path]) -> None:
    rank = machine["cgroups"] / "lockstep" / "run" / "rank-0"
    rank.mkdir(parents=True)
    (rank / "cgroup.procs").write_text("7\n")

    assert found(machine) == []


def test_an_empty_cgroup_is_found(machine: dict[str, Path]) -> None:
    (machine["cgroups"] / "lockstep" / "run" / "rank-0").mkdir(parents=True)

    assert found(machine) == ["run"]


def test_a_network_lives_and_dies_with_the_launcher_that_made_it(machine: dict[str, Path]) -> None:
    living, dead = Owner("alive", 7, START_TICKS), Owner("dead", 7, 1)

    assert ["dead"] == found(machine, **{token("alive"): living, token("dead"): dead})


def test_the_network_of_a_run_with_rings_is_judged_by_their_owner(
    machine: dict[str, Path],
) -> None:
    rings(machine, "alive", pid=7, start_ticks=START_TICKS)
    rings(machine, "dead", pid=8, start_ticks=1)
    networks = {token(run): None for run in ("alive", "dead")}
    left = leftovers.find(*machine.values(), networks=lambda: networks)

    assert [("dead", token("dead"))] == [(each.run, each.network) for each in left]


def test_a_network_that_nobody_owns_and_nobody_is_in_is_found_by_its_token(
    machine: dict[str, Path],
) -> None:
    assert ["0badc0de"] == found(machine, **{"0badc0de": None})


def test_cleaning_removes_rings_and_cgroups(machine: dict[str, Path]) -> None:
    rings(machine, "dead", pid=8, start_ticks=1)
    (machine["cgroups"] / "lockstep" / "dead" / "rank-0").mkdir(parents=True)
    for leftover in leftovers.find(*machine.values(), networks=dict):
        leftovers.clean(leftover, machine["cgroups"])

    assert found(machine) == []
    assert list(machine["shared"].iterdir()) == []
    assert not (machine["cgroups"] / "lockstep").exists()


def test_a_link_in_shared_memory_is_not_followed(machine: dict[str, Path], tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.mkdir()
    (target / OWNER_FILE).write_text('{"pid": 8, "start_ticks": 1}')
    (machine["shared"] / "link").symlink_to(target)

    assert found(machine) == []


def test_doctor_lists_every_extra_and_says_how_to_mend(lockstep: Callable[..., Any]) -> None:
    answer = lockstep("doctor", "-o", "json")
    tree = json.loads(answer.out)

    names = {check["name"] for check in tree["checks"]}
    assert {"python", "extra analyzer", "extra collector", "extra workloads"} <= names
    for check in tree["checks"]:
        assert check["found"]
        assert (check["state"] == "ok") or check["fix"]
    required = [check for check in tree["checks"] if check["state"] == "missing"]
    assert answer.code == (1 if required else 0)
