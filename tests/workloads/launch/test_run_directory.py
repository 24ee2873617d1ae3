"""The folder that the ranks of a host share: made by the first, removed by the last."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.workloads.launch.joining.run_directory import default, prepared, shared
from lockstep.workloads.launch.processes import OWNER_FILE, owner
from lockstep.workloads.spec import Layout, RunSpec, Training

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
SPEC = RunSpec("run", "gpt", Layout(1, 1, 1), 10, 0, Training(vocabulary=32, sequence=16))


def test_the_last_rank_takes_the_folder_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with shared(folder):
        with shared(folder):
            (folder / "rank-0.ring").touch()
        assert (folder / "rank-0.ring").exists()

    assert not folder.exists()


def test_a_rank_that_is_ended_leaves_as_well(tmp_path: Path) -> None:
    with pytest.raises(SystemExit), shared(tmp_path / "run"):
        raise SystemExit(143)

    assert [] == list(tmp_path.iterdir())


def test_the_folder_says_whose_it_is(tmp_path: Path) -> None:
    with shared(tmp_path / "run"):
        assert owner() == json.loads((tmp_path / "run" / OWNER_FILE).read_text())
        assert os.getpid() == owner()["pid"]


def test_the_rings_go_where_the_hosts_collector_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKSTEP_DIR", "/run/lockstep")
    assert Path("/run/lockstep/gpt-1") == default("gpt-1")
    monkeypatch.delenv("LOCKSTEP_DIR")
    assert Path("/dev/shm/lockstep/gpt-1") == default("gpt-1")


@pytest.mark.distributed
def test_the_data_are_made_once_for_all_ranks_of_a_host(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> int:
        path = prepared(SPEC, tmp_path)
        return path.with_name(path.name + ".bin").stat().st_mtime_ns

    assert 1 == len(set(forked(3, work)))
