"""The child process that speaks NVML, seen from its parent: started, ticked, heard, killed."""

import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.readings.source import SourceError

if TYPE_CHECKING:
    import subprocess


# Between the process that speaks NVML and its parent.

CHANGED = 3
"""Exit code: GPUs or MIG devices came or went; start anew at once."""
FAILED = 4
"""Exit code: NVML cannot be used now; the last line says why."""
NO_BINDING = 5
"""Exit code: nvidia-ml-py is not installed."""
MAX_LINE = 1 << 20
"""Bytes of one message at most; a GPU with 18 links takes 12 kB."""


BACKOFF_SECONDS = (1.0, 60.0)
"""Shortest and longest wait before a child that failed or was killed is started again."""
STEADY_SECONDS = 30.0
"""One that answers for so long is well; one that answers and crashes again is not."""
LEAVE_SECONDS, KILL_SECONDS = 0.1, 1.0
"""How long it has to end by itself, and then to die; a reading must end within two seconds."""


def spawn(command: list[str]) -> "subprocess.Popen[bytes]":
    """Start a process with pipes to its input and output."""
    import subprocess  # not needed on a machine without a driver

    # Each thread of the child would otherwise have an arena of its own: 1 MB for nothing.
    environment = {"MALLOC_ARENA_MAX": "1"} | os.environ
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment
    )


class Child:
    """At most one process.

    One that was killed and does not end is in the kernel's hands, most likely inside the driver's
    global lock. It is `dying` until it has gone; a second one before that would only hang beside
    it, and after it a third.
    """

    def __init__(
        self,
        slow_period: float,
        spawn: Callable[[list[str]], "subprocess.Popen[bytes]"] = spawn,
    ) -> None:
        self._slow_period = slow_period
        self._spawn = spawn
        self._process: subprocess.Popen[bytes] | None = None
        self._dying: subprocess.Popen[bytes] | None = None
        self._poll = select.poll()
        self._partial = b""
        self._backoff = 0.0
        self._not_before = -float("inf")
        self.started_at = 0.0
        self.ended_with = ""

    @property
    def runs(self) -> bool:
        """Whether there is a process that may be asked."""
        return self._process is not None

    @property
    def dying(self) -> bool:
        """Whether one was killed and has not ended yet; never waits for it."""
        if self._dying is not None and self._dying.poll() is not None:
            self._dying = None
        return self._dying is not None

    def start(self, library: Path, now: float) -> bool:
        """Start it unless one runs, is dying, or failed a moment ago; True if it was started.

        Raises:
            SourceError: This machine starts no process now.
        """
        if self.runs or self.dying or now < self._not_before:
            return False
        launch = str(Path(__file__).with_name("launch.py"))
        # -P: the folder of the script has names that are not meant for everybody.
        command = [sys.executable, "-P", launch, str(library), str(self._slow_period)]
        try:
            process = self._spawn([*command, str(os.getpid())])
        except OSError as error:
            self._wait_before_the_next(now)
            text = f"the process that asks the driver cannot be started: {error.strerror}"
            raise SourceError("no_process", text) from error
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self._process, self._partial, self.started_at = process, b"", now
        self._poll = select.poll()  # unlike select(), for descriptors above 1023 too
        self._poll.register(_output(process), select.POLLIN)
        return True

    def tick(self) -> None:
        """Ask for a reading."""
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.write(b"tick\n")
            except BrokenPipeError:
                return  # it has ended, which shows in what it does not say

    def hear(self, seconds: float) -> list[dict[str, Any]]:
        """Messages, waiting for at most so long for the first; none once the process has ended."""
        if self._process is None or not self._poll.poll(max(0.0, seconds) * 1000):
            return []
        try:
            data = os.read(_output(self._process), MAX_LINE)
        except BlockingIOError:
            return []
        if not data:
            return [{"ended": True}]
        *lines, self._partial = (self._partial + data).split(b"\n")
        messages = [_message(line) for line in lines]
        return [*messages, {"ended": True}] if len(self._partial) > MAX_LINE else messages

    @property
    def wait_seconds(self) -> float:
        """How long after its last end it is started again."""
        return self._backoff

    def well(self, now: float) -> None:
        """It has answered: if it has done so for a while, the next failure is a first one again."""
        if now - self.started_at >= STEADY_SECONDS:
            self._backoff = 0.0

    def hurry(self) -> None:
        """The machine has changed: do not wait before the next start."""
        self._backoff, self._not_before = 0.0, -float("inf")

    def end(self, now: float) -> bool:
        """Kill it if it lives; False if it does not end, which makes it a dying one.

        `ended_with` says afterwards how it ended.
        """
        if self._process is None:
            return not self.dying
        from subprocess import TimeoutExpired

        process, self._process = self._process, None
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._wait_before_the_next(now)
        try:
            process.wait(LEAVE_SECONDS)  # it may be about to end by itself
        except TimeoutExpired:
            process.kill()
        try:
            process.wait(KILL_SECONDS)
        except TimeoutExpired:
            self._dying = process
        self.ended_with = _status(process.returncode)
        return not self.dying

    def _wait_before_the_next(self, now: float) -> None:
        shortest, longest = BACKOFF_SECONDS
        self._backoff = min(longest, max(shortest, 2 * self._backoff))
        self._not_before = now + self._backoff


def _output(process: "subprocess.Popen[bytes]") -> int:
    assert process.stdout is not None
    return process.stdout.fileno()


def _status(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "not at all"
    if code >= 0:
        return f"status {code}"
    known = {number.value: number.name for number in signal.Signals}
    return f"signal {-code} ({known.get(-code, 'unknown')})"


def _message(line: bytes) -> dict[str, Any]:
    """One message; `garbled` if the line is none."""
    try:
        message = bounded_json.loads(line)
    except ValueError:
        message = None
    if isinstance(message, dict):
        return message
    return {"garbled": line[:80].decode("ascii", "replace")}
