"""The child process that speaks NVML, seen from its parent: started, ticked, heard, killed."""

import json
import os
import select
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collector.sources.nvml.wire import MAX_LINE

if TYPE_CHECKING:
    import subprocess

BACKOFF_SECONDS = (1.0, 60.0)
"""Shortest and longest wait before a child that failed or was killed is started again."""
KILL_SECONDS = 0.2


class Child:
    """At most one process; one that cannot be killed is waited for and never joined by a second."""

    def __init__(self, slow_period: float) -> None:
        self._slow_period = slow_period
        self._process: subprocess.Popen[bytes] | None = None
        self._partial = b""
        self._backoff = 0.0
        self._not_before = -float("inf")
        self.started_at = 0.0

    @property
    def runs(self) -> bool:
        """Whether there is a process, one that resists its end included."""
        return self._process is not None

    def start(self, library: Path, now: float) -> bool:
        """Start it unless the wait after the last failure is not over; True if it was started."""
        if self._process is not None or now < self._not_before:
            return False
        import subprocess  # not needed on a machine without a driver

        command = [
            sys.executable, "-m", "collector.sources.nvml.child",
            "--library", str(library), "--slow-period", str(self._slow_period),
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._partial = b""
        self.started_at = now
        return True

    def tick(self) -> None:
        """Ask for a reading."""
        if self._process is not None and self._process.stdin is not None:
            try:
                os.set_blocking(self._process.stdin.fileno(), False)
                self._process.stdin.write(b"tick\n")
            except (BrokenPipeError, BlockingIOError):
                return  # it has ended, or does not even read: both show in what it does not say

    def hear(self, seconds: float) -> list[dict[str, Any]]:
        """Messages, waiting for at most so long for the first; none once the process has ended."""
        if self._process is None or self._process.stdout is None:
            return []
        output = self._process.stdout.fileno()
        ready, _, _ = select.select([output], [], [], max(0.0, seconds))
        if not ready:
            return []
        try:
            data = os.read(output, MAX_LINE)
        except BlockingIOError:
            return []
        if not data:
            return [{"ended": True}]
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > MAX_LINE:
            return [{"ended": True}]
        return [json.loads(line) for line in lines]

    def well(self) -> None:
        """It has answered: the next failure is a first one again."""
        self._backoff = 0.0

    def hurry(self) -> None:
        """The machine has changed: do not wait before the next start."""
        self._backoff, self._not_before = 0.0, -float("inf")

    def end(self, now: float) -> int | None:
        """Kill it if it lives; its exit code, or None if it cannot be killed."""
        if self._process is None:
            return 0
        from subprocess import TimeoutExpired

        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        if self._process.poll() is None:
            try:
                self._process.wait(KILL_SECONDS / 2)  # it may be about to end by itself
            except TimeoutExpired:
                self._process.kill()
        try:
            code = self._process.wait(KILL_SECONDS)
        except TimeoutExpired:  # in the kernel's hands
            return None
        self._process = None
        shortest, longest = BACKOFF_SECONDS
        self._backoff = min(longest, max(shortest, 2 * self._backoff))
        self._not_before = now + self._backoff
        return code
