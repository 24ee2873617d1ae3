"""The process that asks the driver: it ends with its parent, and what it says may be disturbed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.gpu.nvml import process as nvml_process
from lockstep.collector.sources.gpu.nvml.process import STEADY_SECONDS, Child, spawn
from lockstep.collector.sources.gpu.nvml.source import Limits, Nvml
from tests.machine import slowness

pytestmark = pytest.mark.timed

pytest.importorskip("pynvml")
SHORT = Limits(answer=0.3, start=10.0, stall=0.4, kill=0.8, attach=2.0)


class Unkillable(subprocess.Popen):  # type: ignore[type-arg]
    """A process that no signal ends and that nobody can reap, until it is let go."""

    held = True

    def kill(self) -> None:
        if not self.held:
            super().kill()

    def poll(self) -> int | None:
        return None if self.held else super().poll()

    def wait(self, timeout: float | None = None) -> int:
        if self.held:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return super().wait(timeout)


@pytest.fixture
def spawned(monkeypatch) -> Iterator[list[Unkillable]]:
    monkeypatch.setattr(nvml_process, "BACKOFF_SECONDS", (0.1, 0.2))
    processes: list[Unkillable] = []
    yield processes
    for process in processes:
        process.held = False
        process.kill()
        process.wait(240)


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds
        time.sleep(0.02)


def test_a_process_that_cannot_be_killed_stalls_the_source_until_it_has_gone(
    nvml, machine, spawned
):
    def start(command: list[str]) -> Unkillable:
        spawned.append(
            Unkillable(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        )
        return spawned[-1]

    child = Child(30.0, start)
    source = Nvml(machine.proc, machine.sys, SystemClock(), limits=SHORT, child=child)
    until(lambda: len(source.read().gpus) == 2)
    nvml.state.lock_hang = 1
    reasons: list[str] = []

    def dying() -> bool:
        reasons.extend(one.reason for one in source.read().rejected)
        return child.dying

    until(dying)
    nvml.state.lock_hang = 0
    time.sleep(0.3)  # longer than the wait before the next start
    with slowness() as machine:
        began = time.monotonic()
        readings = [source.read() for _ in range(5)]
        took = time.monotonic() - began
    started = len(spawned)
    spawned[0].held = False
    until(lambda: [gpu.up for gpu in source.read().gpus] == [True, True])
    after = source.read()
    source_ends = len(spawned)
    spawned[-1].held = False
    source.close()

    assert reasons == ["killed", "unkillable"]
    assert [(one.stalled, one.rejected) for one in readings] == [(True, ())] * 5
    assert [[(gpu.uuid, gpu.up, gpu.values) for gpu in one.gpus] for one in readings] == [
        [("GPU-0", False, {}), ("GPU-1", False, {})]
    ] * 5
    assert took < 2 * machine.factor  # nobody waits for it
    assert (started, source_ends) == (1, 2)
    assert not after.stalled


def test_a_process_that_keeps_failing_is_started_ever_more_rarely_until_it_answers_for_a_while():
    child = Child(30.0, lambda _: spawn(["true"]))
    now, waits = 0.0, []
    for answers_for in (*[0.0] * 8, STEADY_SECONDS / 2, STEADY_SECONDS, 0.0):
        began = now
        while not child.start(Path("/none"), now):
            now += 0.5
        waits.append(now - began)
        if answers_for:
            now += answers_for
            child.well(now)
        child.end(now)
    child.hurry()

    assert [0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 1] == waits
    assert child.start(Path("/none"), now)
    child.end(now)


def test_a_machine_that_starts_no_process_is_named(machine, nvml):
    def start(command: list[str]) -> "subprocess.Popen[bytes]":
        raise OSError(11, "Resource temporarily unavailable")

    source = Nvml(machine.proc, machine.sys, SystemClock(), child=Child(30.0, start))

    with pytest.raises(SourceError, match="cannot be started: Resource temporarily") as caught:
        source.read()

    assert caught.value.reason == "no_process"


def test_what_the_driver_prints_does_not_disturb(nvml, machine):
    source = Nvml(machine.proc, machine.sys, SystemClock(), limits=SHORT)
    nvml.state.noise = 1
    source.read()
    readings = [source.read() for _ in range(3)]
    source.close()

    assert [[gpu.up for gpu in one.gpus] for one in readings] == [[True, True]] * 3
    assert [one.rejected for one in readings] == [()] * 3


@pytest.mark.parametrize("line", [b"NVRM: something", b"", b"[1, 2]", b'{"half":', b"\xff\xfe"])
def test_one_line_that_is_no_message_costs_that_line(line):
    script = f"import os; os.write(1, {line!r} + b'\\n' + b'{{\"present\": 3}}\\n')"
    child = Child(30.0, lambda _: spawn([sys.executable, "-c", script]))
    child.start(Path("/none"), 0.0)
    messages: list[dict] = []
    until(lambda: messages.extend(child.hear(0.1)) or {"ended": True} in messages)
    child.end(0.0)

    assert [list(one) for one in messages[:2]] == [["garbled"], ["present"]]
    assert messages[1] == {"present": 3}


def test_a_garbled_line_is_counted_and_the_rest_stands(nvml, machine):
    def start(command: list[str]) -> "subprocess.Popen[bytes]":
        shell = ["sh", "-c", 'echo NVRM: something; exec "$0" "$@"']
        return spawn([*shell, *command])

    source = Nvml(machine.proc, machine.sys, SystemClock(), child=Child(30.0, start))
    rejected: list[str] = []

    def told() -> bool:
        reading = source.read()
        rejected.extend(one.reason for one in reading.rejected)
        return [gpu.up for gpu in reading.gpus] == [True, True]

    until(told)
    source.close()

    assert rejected == ["garbled"]


STARTS_AND_WAITS = """
import signal, sys, time
from pathlib import Path
from lockstep.collector.clock import SystemClock
from lockstep.collector.sources.gpu.nvml.source import Nvml
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
source = Nvml(Path('/proc'), Path('/sys'), SystemClock())
while not source.read().gpus: pass
print(source._child._process.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def parent_and_child(nvml) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """A process that reads GPUs, and the one that asks the driver for it."""
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_WAITS], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    yield parent, child
    parent.kill()
    parent.wait(240)
    parent.stdout.close()
    if lives(child):
        os.kill(child, signal.SIGKILL)


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_the_child_ends_with_its_parent_also_inside_the_driver(nvml, parent_and_child):
    parent, child = parent_and_child
    nvml.state.lock_hang = 1
    parent.send_signal(signal.SIGKILL)

    until(lambda: not lives(child))


def test_the_child_ends_with_its_parent_also_where_it_cannot_read_its_input(parent_and_child):
    parent, child = parent_and_child
    os.kill(child, signal.SIGSTOP)
    parent.send_signal(signal.SIGKILL)

    until(lambda: not lives(child))


def test_the_child_loads_no_other_source_and_hears_sigterm_though_its_parent_blocks_it(
    parent_and_child,
):
    _, child = parent_and_child
    mapped = Path(f"/proc/{child}/maps").read_text()
    words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines()
    )
    os.kill(child, signal.SIGTERM)

    assert "_ssl" not in mapped  # urllib's, which two other sources import
    assert any(word.endswith("nvml/launch.py") for word in words)
    assert int(status["SigBlk"], 16) == 0
    until(lambda: not lives(child))
