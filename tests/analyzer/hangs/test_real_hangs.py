"""Real programs on gloo that hang, by the dumps that torch's flight recorder gives of them."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockstep.analyzer.hangs.verdict import HangVerdict, Status, judge
from lockstep.runs.hang_dumps import NoDumpsError, read_folder

PROGRAM = Path(__file__).with_name("gloo_program.py")
WORLD = 4
DEADLINE_SECONDS = 150.0
"""Until all ranks have begun and the hang is as old as LIMIT; seconds on a machine that is idle."""
LIMIT_SECONDS = 3.0

pytestmark = pytest.mark.distributed


@contextmanager
def running(folder: Path, fault: str, culprit: int, tp: int = 2) -> Iterator[None]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(rank), str(WORLD), str(tp), str(folder),
             fault, str(culprit)],
            env=environment, stderr=subprocess.DEVNULL,
        )
        for rank in range(WORLD)
    ]  # fmt: skip
    try:
        yield
    finally:
        for rank in ranks:
            rank.kill()
        for rank in ranks:
            rank.wait()


def asked(folder: Path, limit: float | None) -> HangVerdict | None:
    """What the ranks tell now; None = none has begun."""
    for old in folder.glob("dump_*"):
        old.unlink()
    (folder / "ask").touch()
    time.sleep(1.0)
    try:
        return judge(read_folder(folder)[0][1], limit)
    except NoDumpsError:
        return None


@pytest.mark.sweep(sample=2)
@pytest.mark.parametrize(
    ("fault", "kind", "tp"),
    [
        ("stopped", "silent", 2),
        ("asleep", "host-stopped", 2),
        ("skipped", "mismatched-operation", 2),
        # Two whose sums differ in length end with an error; four do not notice.
        ("mismatched-shape", "mismatched-shape", 1),
    ],
)
def test_the_rank_that_began_it_is_named_and_in_which_way(tmp_path, fault, kind, tp):
    culprit = 2
    until = time.monotonic() + DEADLINE_SECONDS
    with running(tmp_path, fault, culprit, tp):
        verdict = asked(tmp_path, LIMIT_SECONDS)
        while time.monotonic() < until and (verdict is None or not verdict.origins):
            verdict = asked(tmp_path, LIMIT_SECONDS)

    assert verdict is not None
    assert [(culprit, kind)] == [(one.rank, one.kind.value) for one in verdict.origins]


def test_nobody_is_named_while_it_runs(tmp_path):
    until = time.monotonic() + DEADLINE_SECONDS
    seen = []
    with running(tmp_path, "none", 0):
        while time.monotonic() < until and len(seen) < 5:
            verdict = asked(tmp_path, None)
            if verdict is not None and verdict.merged.dumps.world == tuple(range(WORLD)):
                seen.append(verdict.status)

    assert 5 == len(seen)
    assert Status.HANG not in seen
