"""A rank that is stopped in a real run: which pages say so, and how soon."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.hangs.detector import hang
from lockstep.analyzer.read.ranks import rank_infos
from lockstep.analyzer.shapes.run import Run
from lockstep.analyzer.shapes.windows import from_samples
from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.archive import RANKS, SAMPLES
from lockstep.collector.recorder.parts import Row
from lockstep.collector.recorder.recorder import Target
from lockstep.collector.recorder.rows import sample_rows
from tests.machine import slowness

HEARTBEAT_SECONDS = 1.0
SCRAPE_SECONDS = 0.5
"""Local runs sample and are asked twice a second."""
SLACK_SECONDS = 2.0
"""For a machine that is busy with something else."""


@dataclass
class Pages:
    """The pages of all nodes of a run, asked again and again as Prometheus would."""

    run: str
    targets: dict[str, Target]
    rows: list[Row] = field(default_factory=list)

    def ask(self) -> dict[str, dict[tuple[int, str], float]]:
        """One round: values by metric, then by rank and group."""
        seen: dict[str, dict[tuple[int, str], float]] = {}
        for node, target in self.targets.items():
            page = target.get("/metrics", 5)
            assert page is not None
            now = SystemClock().wall()
            for row in sample_rows(page.decode(), now, node, self.run):
                self.rows.append(row)
                _, _, _, rank, metric, labels, value = row
                if rank is not None:
                    group = labels.partition('group="')[2].partition('"')[0]
                    seen.setdefault(metric, {})[rank, group] = value
        return seen

    def process(self, rank: int) -> int:
        labels = next(r[5] for r in self.rows if r[4] == m.RANK_INFO.name and r[3] == rank)
        return int(labels.partition('pid="')[2].partition('"')[0])

    def hang(self) -> list[tuple[int, str]]:
        """(rank, state) of those that the analyzer calls missing, from these pages alone."""
        samples = pd.DataFrame(self.rows, columns=[column.name for column in SAMPLES])
        samples = samples.astype({"rank": "Int64", "gpu": "Int64"})  # some are about neither
        table = pd.DataFrame(columns=[column.name for column in RANKS])
        ranks = rank_infos(table, samples, None, [])
        grid = align(Run(self.run, {}, ranks, from_samples(samples), samples, None))
        return [(one.rank, str(one.details["state"])) for one in hang(grid)]


def missing(seen: dict[str, dict[tuple[int, str], float]]) -> set[int]:
    """Ranks that others wait for: behind in the group of an operation open for a heartbeat.

    One that was stopped inside the operation is not behind; its heartbeat tells.
    """
    heartbeat = {rank: age for (rank, _), age in seen[m.TRAIN_HEARTBEAT_AGE.name].items()}
    old = 1.5 * HEARTBEAT_SECONDS
    found: set[int] = set()
    for (waiting, group), age in seen.get(m.TRAIN_OPEN_OP_AGE.name, {}).items():
        if age < HEARTBEAT_SECONDS or heartbeat[waiting] >= old:
            continue
        arrived = {
            rank: number
            for (rank, its), number in seen[m.TRAIN_ENQUEUED.name].items()
            if its == group
        }
        found |= {
            rank
            for rank, number in arrived.items()
            if heartbeat[rank] >= old and number <= arrived[waiting]
        }
    return found


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    """A real run of two nodes that trains right now."""
    archive = tmp_path / "archive"
    process = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "run", "gpt", "--nodes", "2", "--steps", "4000",
         "--hang-timeout", "60", "--out", str(archive)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.callback(process.wait, timeout=30)
        stack.callback(process.send_signal, signal.SIGINT)
        until = time.monotonic() + 60
        while not (archive / "run.json").exists():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        run = json.loads((archive / "run.json").read_text())["run"]
        workspace = Path("/dev/shm/lockstep") / run
        found = Pages(run, {})
        while len(announced := sorted(workspace.glob("*.address"))) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
        for path in announced:
            target = Target(f"http://{path.read_text().strip()}")
            stack.callback(target.close)
            found.targets[path.stem] = target
        while min(trained(found.ask()), default=0) < 3:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(SCRAPE_SECONDS / 5)
        yield found


def trained(seen: dict[str, dict[tuple[int, str], float]]) -> list[float]:
    """Steps of both ranks, once both are on the pages."""
    steps = list(seen.get(m.TRAIN_STEPS.name, {}).values())
    return steps if len(steps) == 2 else []


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
def test_a_stopped_rank_is_shown_as_the_missing_one_within_two_heartbeats(pages: Pages) -> None:
    assert set() == missing(pages.ask())
    stopped = pages.process(1)
    os.kill(stopped, signal.SIGSTOP)
    began = time.monotonic()
    try:
        with slowness() as machine:
            while not (found := missing(seen := pages.ask())) and time.monotonic() < began + 60:
                time.sleep(SCRAPE_SECONDS / 5)
        assert {1} == found
        age = seen[m.TRAIN_HEARTBEAT_AGE.name][1, ""]
        assert age <= (2 * HEARTBEAT_SECONDS + SCRAPE_SECONDS + SLACK_SECONDS) * machine.factor
        assert any(rank == 0 for rank, _ in seen[m.TRAIN_OPEN_OP_AGE.name])
        behind = seen[m.TRAIN_ENQUEUED.name]
        assert all(behind[1, group] <= number for (_, group), number in behind.items())

        # The analyzer waits for three seconds before it calls that a hang, and a rank frozen.
        while (hang := pages.hang()) != [(1, "frozen")] and time.monotonic() < began + 60:
            assert {rank for rank, _ in hang} <= {1}
            pages.ask()
            time.sleep(SCRAPE_SECONDS)
        assert [(1, "frozen")] == hang
    finally:
        os.kill(stopped, signal.SIGCONT)
    before = min(trained(pages.ask()))
    while min(trained(pages.ask())) < before + 3 and time.monotonic() < began + 180:
        time.sleep(SCRAPE_SECONDS / 5)
    after = pages.ask()

    assert min(trained(after)) >= before + 3
    assert set() == missing(after)
