"""Real benchmarks of real local runs: a 3 x 3 matrix, kills, writers, runs for baselines.

    python -m tests.benchmarks bench_runs --matrix | --kills N | --writers | --baselines FOLDER

`--kills`: the bench is killed (SIGKILL) at random moments and started again until it is through.
"""

import argparse
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lockstep.bench import results

SPEC = """
[bench]
name = "real"
repeats = {repeats}
timeout = 240
report = []
[workloads.gpt]
steps = {steps}
{gpt}
[workloads.logreg]
steps = {steps}
[workloads.allreduce]
steps = 10
[matrix]
workloads = {workloads}
nodes = {nodes}
settings = {settings}
[[steps]]
name = "analyze"
command = ["sh", "-c", "echo {{cell}} {{repeat}} >> {{out}}/through"]
"""
WHOLE = {"workloads": '["gpt", "logreg", "allreduce"]', "nodes": "[1, 2, 3]", "settings": "[{}]",
         "gpt": ""}  # fmt: skip

ONE_SPEED = """model = "tiny"
device-seconds = 0.2"""
"""Ten times what a small model's arithmetic takes."""

GOALS = {"not finished": 0.0, "repeated": 0.0, "analyzed twice": 0.0, "rows lost or garbled": 0.0,
         "kills that came too late": 0.0}  # fmt: skip


def main() -> dict[str, float]:
    """One of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--matrix", action="store_true")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--writers", action="store_true")
    parser.add_argument("--baselines", type=Path)
    asked = parser.parse_args(sys.argv[2:])
    if asked.writers:
        return writers()
    if asked.baselines:
        return baselines(asked.baselines)
    return matrix(asked.kills)


def matrix(kills: int) -> dict[str, float]:
    """9 cells, unattended; with kills in between."""
    with tempfile.TemporaryDirectory() as folder:
        spec, out = Path(folder) / "b.toml", Path(folder) / "out"
        spec.write_text(SPEC.format(repeats=1, steps=30, **WHOLE))
        command = [sys.executable, "-m", "lockstep", "bench", "run", str(spec), "--out", str(out)]
        began, dice, killed = time.monotonic(), random.Random(kills), 0
        before: dict[str, int] = {}
        while True:
            # A group of its own, so that nothing but the bench itself is killed.
            bench = subprocess.Popen(command, start_new_session=True)
            try:
                code = bench.wait(dice.uniform(2, 15) if killed < kills else None)
                break
            except subprocess.TimeoutExpired:
                os.kill(bench.pid, signal.SIGKILL)
                bench.wait()
                killed += 1
                for cell in _finished(out):
                    before.setdefault(cell, _attempts(out, cell))
                time.sleep(1)
        rows, finished = results.read(out / "results.parquet"), len(_finished(out))
        through = (out / "through").read_text().splitlines()
        repeated = [cell for cell, much in before.items() if _attempts(out, cell) > much]
        told = (
            f"{killed} kills; exit {code}; {len(rows)} rows, {finished} finished;"
            f" {len(before)} cells had finished at a kill, {len(repeated)} of them run again;"
            f" {len(through)} cells came to analyze, {len(set(through))} different;"
            f" {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}"
        )
        print(told)  # noqa: T201
        return {"not finished": 9.0 - finished + (code != 0), "repeated": float(len(repeated)),
                "analyzed twice": float(len(through) - len(set(through))),
                "kills that came too late": float(kills - killed)}  # fmt: skip


def _finished(out: Path) -> list[str]:
    """Cells that have a finished row."""
    found = results.read(out / "results.parquet") if (out / "results.parquet").exists() else []
    return [str(row["cell"]) for row in found if row["status"] == "finished"]


def _attempts(out: Path, cell: str) -> int:
    return len(list((out / "cells" / cell / "0").glob("archive-*")))


def _write(folder: str, number: int) -> None:
    results.write(Path(folder), {"bench": "w", "cell": f"c{number:02d}", "repeat": 0,
                                 "sentence": "x" * 5000, "metric_n": float(number)})  # fmt: skip


def writers() -> dict[str, float]:
    """60 processes that write at once."""
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["lockstep.bench.results", "pyarrow.parquet"])
        each = [context.Process(target=_write, args=(folder, number)) for number in range(60)]
        for one in each:
            one.start()
        for one in each:
            one.join()
        rows = results.read(Path(folder))
        right = [row["metric_n"] for row in rows] == list(map(float, range(60)))
        told = f"60 writers, {len(rows)} rows, {'all as written' if right else 'GARBLED'}"
        print(told)  # noqa: T201
        return {"rows lost or garbled": 0.0 if right else 60.0}


def baselines(folder: Path) -> dict[str, float]:
    """Healthy runs, all ranks 5 % slower, and one rank that costs 5 %, for bench_baselines.

    On devices of one speed, as those of one cluster are: that of an emulated one is otherwise what
    the machine's processors can keep just then, which on a busy one is another in each run.
    """
    spec = folder / "b.toml"
    folder.mkdir(parents=True, exist_ok=True)
    slow = "compute:rank={},factor=1.05,from=10"
    faults = ", ".join(f'"{slow.format(rank)}"' for rank in (0, 1))
    settings = f'[{{}}, {{fault = [{faults}]}}, {{fault = "{slow.format(1)}"}}]'
    spec.write_text(SPEC.format(repeats=10, steps=120, workloads='["gpt"]', nodes="[2]",
                                settings=settings, gpt=ONE_SPEED))  # fmt: skip
    command = [sys.executable, "-m", "lockstep", "bench", "run", str(spec), "--out", str(folder)]
    return {"not finished": float(subprocess.call(command) != 0)}
