"""Whatever ends a launcher, nothing of its emulated network stays."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from uuid import uuid4

import pytest

from lockstep.workloads.network import namespaces, netns
from lockstep.workloads.network.names import token, token_of

pytestmark = pytest.mark.root

PATIENCE_SECONDS = 120.0
LAUNCHER = """
import json, os, sys
from pathlib import Path
from time import sleep
from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.launch.local import Janitor
from lockstep.workloads.network import emulated as module
from lockstep.workloads.network.emulated import EmulatedNetwork

run, workspace, logs = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
workspace.mkdir()
module.has_netem = lambda: False  # the user-space link has the most to leave behind
janitor = Janitor(run, workspace)
faults = [Fault(FaultKind.LINK_DELAY, None, 1, 1.5, 10, 20)]
network = EmulatedNetwork(run, 3, 1, faults, 0, workspace, logs)
print(json.dumps([network._helper._pid, network._links._helper._pid]), flush=True)
if sys.stdin.readline():
    network.close()
    janitor.dismiss()
    print("closed", flush=True)
"""


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, list[int]]]:
    """A process that holds an emulated network: itself, its run, and its helpers."""
    run = f"test-{uuid4().hex}"
    words = [sys.executable, "-c", LAUNCHER, run, str(tmp_path / "rings"), str(tmp_path / "logs")]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, run, json.loads(process.stdout.readline())
        process.kill()
    namespaces.remove(token(run))


def traces(run: str) -> list[str]:
    # Before the first namespace there is no folder of namespaces.
    places = [place for place in (netns.FOLDER, Path("/sys/class/net")) if place.is_dir()]
    return [name for place in places for name in os.listdir(place) if token_of(name) == token(run)]


def lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def within_patience(done: Callable[[], bool]) -> bool:
    deadline = monotonic() + PATIENCE_SECONDS
    while not done() and monotonic() < deadline:
        sleep(0.05)
    return done()


def test_a_killed_launcher_leaves_no_namespace_device_or_process(
    launcher: tuple[subprocess.Popen[str], str, list[int]], tmp_path: Path
) -> None:
    process, run, helpers = launcher
    assert 3 + 2 == len(traces(run))
    assert [True, True] == [lives(pid) for pid in helpers]

    process.send_signal(signal.SIGKILL)
    process.wait()
    assert within_patience(lambda: not traces(run))
    assert within_patience(lambda: not any(map(lives, helpers)))
    assert within_patience(lambda: not (tmp_path / "rings").exists())


def test_a_launcher_that_closes_its_network_leaves_nothing_either(
    launcher: tuple[subprocess.Popen[str], str, list[int]], tmp_path: Path
) -> None:
    process, run, helpers = launcher
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("close\n")
    process.stdin.flush()

    assert "closed\n" == process.stdout.readline()
    assert [] == traces(run)
    assert [False, False] == [lives(pid) for pid in helpers]
