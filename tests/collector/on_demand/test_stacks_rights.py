"""Stacks of processes of other users and other containers: told, or refused with what is right."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract.stacks import Depth, Reader, Stacks
from lockstep.collector.on_demand import process, py_spy
from lockstep.collector.on_demand.stacks import Asked, read_stacks

PROC = Path("/proc")
WAITING = "import time\ndef load_sample():\n    time.sleep(100000)\nload_sample()\n"

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("unshare"), reason="takes root, and util-linux"
    ),
]


@pytest.fixture
def waiting():
    """A Python program, behind these words."""
    children = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        children.append(subprocess.Popen([*words, sys.executable, "-c", WAITING]))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()


def told(pid: int, depth: Depth = Depth.PYTHON) -> Stacks:
    """Once it stands."""
    until = time.monotonic() + 120
    while True:
        asked = [Asked(0, "node-0", pid, Path("/nowhere"), os.geteuid())]
        one = read_stacks(asked, depth, PROC, SystemClock(), 60)[0]
        names = [each.function for each in one.main.frames] if one.main else []
        if "load_sample" in names or time.monotonic() > until:
            return one
        time.sleep(0.05)


def test_a_rank_in_a_container_is_read_and_its_main_thread_known(waiting):
    shell = waiting("unshare", "--fork", "--kill-child", "--pid", "--mount-proc")
    until = time.monotonic() + 60
    while not process.children(PROC, shell.pid) and time.monotonic() < until:
        time.sleep(0.05)
    [inside] = process.children(PROC, shell.pid)
    one = told(inside)

    assert Reader.PY_SPY is one.reader
    assert 1 == process.status(PROC, inside).inside
    assert "load_sample" == one.main.frames[-1].function


def test_who_may_not_read_says_so_and_the_rank_goes_on(waiting, tmp_path, monkeypatch):
    child = waiting()
    assert "load_sample" == told(child.pid).main.frames[-1].function
    as_nobody = tmp_path / "py-spy"
    drop = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    as_nobody.write_text(f'#!/bin/sh\nexec {drop} {py_spy.program()} "$@"\n')
    as_nobody.chmod(0o755)
    monkeypatch.setattr(py_spy, "program", lambda: str(as_nobody))
    asked = [Asked(0, "node-0", child.pid, Path("/nowhere"), os.geteuid())]
    [one] = read_stacks(asked, Depth.PYTHON, PROC, SystemClock(), 60)

    assert one.reader is None
    assert "ptrace is refused" in one.why
    assert child.poll() is None


@pytest.mark.parametrize("depth", [Depth.PYTHON, Depth.NATIVE])
def test_a_stopped_rank_is_read_and_stays_stopped(waiting, depth):
    child = waiting()
    told(child.pid)
    child.send_signal(signal.SIGSTOP)
    until = time.monotonic() + 60
    while process.status(PROC, child.pid).state != "T" and time.monotonic() < until:
        time.sleep(0.01)
    one = told(child.pid, depth)

    assert ("T", Reader.PY_SPY, False) == (one.state, one.reader, one.native)
    assert "load_sample" == one.main.frames[-1].function
    assert ("ptrace would wait" in one.why) is (depth is Depth.NATIVE)
    assert "T" == process.status(PROC, child.pid).state
