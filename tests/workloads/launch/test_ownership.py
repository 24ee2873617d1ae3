"""Whose a run's folder is: the launcher's, or that of all ranks that have none."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.workloads.launch.joining.run_directory import shared
from lockstep.workloads.launch.processes import (
    LOCK_FILE,
    OWNER_FILE,
    is_dead,
    lives,
    owner,
    start_ticks,
)

GONE = '{"pid": 4194304, "start_ticks": 1}'  # above the largest pid that Linux gives
HOLDER = """\
import sys
from pathlib import Path
from lockstep.workloads.launch.joining.run_directory import shared
with shared(Path(sys.argv[1])):
    print("inside", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> "subprocess.Popen[str]":
    """Another process that is inside the folder until its standard input closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert "inside\n" == process.stdout.readline()
    return process


def test_this_process_lives_and_one_of_another_start_does_not() -> None:
    ticks = start_ticks(os.getpid())

    assert {"pid": os.getpid(), "start_ticks": ticks} == owner()
    assert lives(os.getpid(), ticks)
    assert not lives(os.getpid(), ticks + 1)


def test_a_folder_without_an_owner_is_not_dead(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).touch()

    assert not is_dead(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x", "start_ticks": 1}'])
def test_a_broken_owner_file_is_nobody_s_to_judge(tmp_path: Path, text: str) -> None:
    (tmp_path / OWNER_FILE).write_text(text)

    assert not is_dead(tmp_path)


def test_a_launchers_folder_dies_with_it(tmp_path: Path) -> None:
    (tmp_path / OWNER_FILE).write_text(json.dumps(owner()))
    assert not is_dead(tmp_path)
    (tmp_path / OWNER_FILE).write_text(GONE)
    assert is_dead(tmp_path)


def test_the_rings_live_as_long_as_any_rank_though_the_first_one_died(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = holder(folder)
    second = holder(folder)
    first.kill()
    first.communicate()
    assert first.pid == json.loads((folder / OWNER_FILE).read_text())["pid"]
    assert not is_dead(folder)
    second.kill()
    second.communicate()
    assert is_dead(folder)


def test_asking_does_not_keep_the_last_rank_from_removing_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with shared(folder):
        assert not is_dead(folder)

    assert not folder.exists()


def test_a_lock_that_nobody_holds_outweighs_an_owner_that_lives(tmp_path: Path) -> None:
    """As after a rank whose pid another process of ours has: the lock is the truth."""
    (tmp_path / OWNER_FILE).write_text(json.dumps(owner()))
    (tmp_path / LOCK_FILE).touch()
    assert is_dead(tmp_path)
    with (tmp_path / LOCK_FILE).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert not is_dead(tmp_path)
