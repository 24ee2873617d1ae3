"""A keeper beside its rank: a real fork, with a rank that only writes a ring or dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.collector.contract import ring
from lockstep.workloads.launch import keeper
from lockstep.workloads.launch.keeper import Keeper, Report, parsed

PROGRAM = """
import os, sys, time
from pathlib import Path
from lockstep.workloads.launch.keeper import Keeper
folder = Path(sys.argv[1])
tell = lambda report: os.write(1, report.line().encode())
Keeper(2, "here", folder / "ring", folder / "log", tell).keep(lambda: time.sleep(60))
"""


def kept(
    folder: Path, run: Callable[[], int], *, ring_goes: bool = False
) -> tuple[int, list[Report]]:
    told: list[Report] = []
    before = signal.getsignal(signal.SIGTERM)
    ring_file = folder / ring.file_name(2)
    one = Keeper(2, "here", ring_file, folder / "log", told.append, ring_goes=ring_goes)
    try:
        code = one.keep(run)
    finally:
        signal.signal(signal.SIGTERM, before)
    return code, told


def test_a_rank_that_ends_well_lets_its_keeper_end_well(tmp_path: Path) -> None:
    code, told = kept(tmp_path, lambda: 0)

    assert 0 == code
    assert (2, "here", 0, "") == (told[-1].rank, told[-1].host, told[-1].status, told[-1].refused)


def test_the_ring_of_a_rank_that_ended_well_stays_until_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "RECORDED_SECONDS", 0.7)
    before = time.monotonic()
    code, told = kept(tmp_path, lambda: 0, ring_goes=True)

    assert 0 == code
    assert time.monotonic() - before >= 0.7
    assert len([report for report in told if report.status == 0]) >= 2  # heard at once, and again


def test_a_failed_rank_is_told_with_its_last_line_and_its_keeper_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "KEPT_SECONDS", 0.7)

    def fail() -> int:
        os.write(1, b"first\nlast words\n")
        return 3

    code, told = kept(tmp_path, fail)

    assert (3, 3 << 8, "last words") == (code, told[-1].status, told[-1].last)
    assert len([report for report in told if report.status is not None]) >= 2


def test_a_killed_rank_is_told_by_its_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "KEPT_SECONDS", 0.0)

    def die() -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    code, told = kept(tmp_path, die)

    assert (128 + signal.SIGKILL, int(signal.SIGKILL)) == (code, told[-1].status)


def lives(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_rank_does_not_outlive_its_keeper_even_stopped(
    tmp_path: Path, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        report = parsed(process.stdout.readline())
        assert report is not None
        os.kill(report.pid, signal.SIGSTOP)
        process.send_signal(number)
        process.wait(240)
    deadline = time.monotonic() + 60
    while lives(report.pid) and time.monotonic() < deadline:
        time.sleep(0.02)

    assert not lives(report.pid)
