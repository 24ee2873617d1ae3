"""The ring of a rank that still imports: `python -m lockstep.workloads` with a slow torch."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract.words import RankState
from lockstep.collector.sources.ranks.owners import Rank
from lockstep.collector.sources.ranks.rings import Rings
from lockstep.workloads.launch.joining.job_file import Job
from lockstep.workloads.spec import Layout, RunSpec

STANDS = """
import ctypes, os
gate = os.environ["GATE"].encode()
libc = ctypes.PyDLL(None)  # keeps the interpreter to itself, as the loader does
descriptor = libc.open(gate, os.O_RDONLY)
libc.read(descriptor, ctypes.create_string_buffer(1), 1)
raise ImportError("libcudart.so.12: cannot open shared object file")
"""


@contextmanager
def importing(folder: Path, spec: RunSpec, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """A rank that is at `import torch`, until a byte is in the gate: then that fails."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(STANDS)
    os.mkfifo(folder / "gate")
    Job(spec, folder / "out", hosts=2).write(folder / "job.json")
    ours = {"GATE": str(folder / "gate"), "LOCKSTEP_DIR": str(folder), "LOCKSTEP_NODE": "gpu-7",
            "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1",
            "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"}  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "lockstep.workloads", str(folder / "job.json")],
        env={**os.environ, **ours, **variables}, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def told(folder: Path, spec: RunSpec) -> Rank | None:
    """What a collector tells of it, which does not see its process."""
    nowhere = folder / "proc"
    nowhere.mkdir(exist_ok=True)
    return next(iter(Rings(folder / spec.run, nowhere, SystemClock()).scan().ranks), None)


def seen(folder: Path, spec: RunSpec) -> Rank:
    deadline = time.monotonic() + 60
    while (rank := told(folder, spec)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return rank


def test_a_rank_is_seen_as_starting_while_it_imports_and_as_failed_if_it_cannot(
    tmp_path: Path,
) -> None:
    spec = RunSpec("gpt-20260101t000000-a1b2", "gpt", Layout(2, 1, 2), 10, 0)
    with importing(tmp_path, spec) as process:
        first = seen(tmp_path, spec)
        time.sleep(4)  # longer than a heartbeat may be old
        rank = told(tmp_path, spec)
        ring = os.open(first.path, os.O_RDONLY)  # it goes with the last rank of the host
        (tmp_path / "gate").write_text("x")
        _, errors = process.communicate(timeout=60)

    assert rank is not None
    who, live = rank.header.identity, rank.header.live
    assert (True, RankState.STARTING) == (rank.up, rank.header.state)
    assert (1, 2, "gpu-7", process.pid) == (who.rank, who.world, who.node, who.pid)
    assert live is not None
    assert 0 == live.steps
    assert "libcudart.so.12" in errors
    assert RankState.FAILED == state(ring)
    assert first.header.heartbeat_ns < rank.header.heartbeat_ns


def state(descriptor: int) -> RankState:
    from lockstep.collector.sources.ranks.header import read_header

    try:
        return read_header(descriptor, SystemClock()).state
    finally:
        os.close(descriptor)


def test_nobody_beats_for_a_rank_that_was_killed(tmp_path: Path) -> None:
    spec = RunSpec("gpt-20260101t000000-a1b2", "gpt", Layout(2, 1, 2), 10, 0)
    with importing(tmp_path, spec) as process:
        seen(tmp_path, spec)
        process.kill()
        process.communicate(timeout=60)
        last = seen(tmp_path, spec).header.heartbeat_ns
        time.sleep(1.2)

    assert last == seen(tmp_path, spec).header.heartbeat_ns


@pytest.mark.parametrize("rank", ["2", "5"])
def test_a_rank_that_the_run_does_not_have_gets_no_ring(tmp_path: Path, rank: str) -> None:
    spec = RunSpec("gpt-20260101t000000-a1b2", "gpt", Layout(2, 1, 2), 10, 0)
    with importing(tmp_path, spec, RANK=rank, WORLD_SIZE="6") as process:
        (tmp_path / "gate").write_text("x")  # it is at the import now
        found = told(tmp_path, spec)
        process.communicate(timeout=60)

    assert found is None
