"""Time-out, stop and resume with real processes: of this machine and of mpirun."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lockstep.bench import results
from lockstep.runs.leftovers import SHARED_MEMORY

pytestmark = [pytest.mark.distributed, pytest.mark.slow]
SPEC = """
[bench]
name = "n"
launcher = "{launcher}"
report = []
timeout = {timeout}
[workloads.logreg]
[matrix]
ranks_per_node = [2]
settings = [{{steps = 12}}, {{steps = {steps}}}]
"""
LONG = 1_000_000
QUICK, SLOW = "logreg,s0-steps=12", f"logreg,s1-steps={LONG}"
PATIENCE = 600.0
STARTS = 4.0
"""A cell may take so many times as long as one program with torch needs to begin: by then its run
is there, and its ranks are, or are about to be."""
everywhere = pytest.mark.parametrize("launcher", [
    "local",
    pytest.param("mpirun", marks=[pytest.mark.foreign, pytest.mark.skipif(
        shutil.which("mpirun") is None, reason="needs mpirun")]),
])  # fmt: skip


def file(folder: Path, launcher: str, *, timeout: float = 600) -> None:
    (folder / "n.toml").write_text(SPEC.format(launcher=launcher, timeout=timeout, steps=LONG))


def words(folder: Path, *more: object) -> list[str]:
    return [sys.executable, "-m", "lockstep", "bench", "run", str(folder / "n.toml"),
            "--out", str(folder / "out"), *map(str, more)]  # fmt: skip


def start_seconds() -> float:
    """Of a program with torch, on this machine now."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch.distributed"], check=True)
    return time.monotonic() - began


def statuses(folder: Path) -> dict[str, str]:
    return {row["cell"]: row["status"] for row in results.read(folder / "out" / "results.parquet")}


def left(folder: Path) -> list[str]:
    """Processes and rings of the benchmark's runs."""
    runs = [json.loads(each.read_text())["run"]
            for each in folder.glob("out/cells/*/*/archive-*/run.json")]  # fmt: skip
    assert runs
    found = [run for run in runs if (SHARED_MEMORY / run).exists()]
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in said or any(run in said for run in runs):
            found.append(said)
    return found


def until(said: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not said():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.1)


@contextmanager
def begun(folder: Path, attempt: int) -> Iterator[subprocess.Popen[str]]:
    """A benchmark whose second cell runs, for the so manieth time."""
    bench = subprocess.Popen(
        words(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        archive = folder / "out" / "cells" / SLOW / "0" / f"archive-{attempt}"
        steps = archive / "steps.parquet"
        until(lambda: bench.poll() is not None or (steps.is_dir() and any(steps.iterdir())))
        yield bench
    finally:
        if bench.poll() is None:
            os.killpg(bench.pid, signal.SIGKILL)
        bench.communicate()


@everywhere
def test_a_cell_that_takes_too_long_is_ended_with_its_ranks(tmp_path: Path, launcher: str) -> None:
    timeout = STARTS * start_seconds()
    file(tmp_path, launcher, timeout=timeout)
    told = subprocess.run(words(tmp_path, "--cell", SLOW), capture_output=True, text=True,
                          check=False)  # fmt: skip

    assert 70 == told.returncode, told.stderr
    assert {SLOW: "timeout"} == statuses(tmp_path)
    assert f"launch had not ended after {timeout:g} s, and was ended" in told.stderr
    assert [] == left(tmp_path)


@everywhere
def test_a_bench_that_is_stopped_leaves_nothing_and_goes_on(tmp_path: Path, launcher: str) -> None:
    file(tmp_path, launcher)
    with begun(tmp_path, 0) as bench:
        stop = subprocess.run(
            [sys.executable, "-m", "lockstep", "bench", "stop", str(tmp_path / "out")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        _, said = bench.communicate(timeout=PATIENCE)

    assert (0, 130) == (stop.returncode, bench.returncode), stop.stderr + said
    assert "has stopped; `lockstep bench run` goes on" in stop.stdout
    assert "stopped; the same command goes on" in said
    assert {QUICK: "finished", SLOW: "stopped"} == statuses(tmp_path)
    assert [] == left(tmp_path)

    with begun(tmp_path, 1) as bench:
        bench.send_signal(signal.SIGINT)
        said, _ = bench.communicate(timeout=PATIENCE)

    assert 130 == bench.returncode
    assert f"{QUICK} repeat 0: finished before" in said
    assert {QUICK: "finished", SLOW: "stopped"} == statuses(tmp_path)
    assert [] == left(tmp_path)
