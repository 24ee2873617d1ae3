"""Follows the log of a rank and records, on its behalf, the steps that it speaks of."""

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple

from lockstep.collector.contract.words import PHASES, RankState
from lockstep.workloads.launch.external_program.choice import MOST_STEPS, Choice, begins_anew
from lockstep.workloads.launch.external_program.patterns import Said
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.sdk.holder import Means
from lockstep.workloads.sdk.start import UnwritableError, started

MOST_BYTES = 1 << 20
"""Read at a time; a log that grows faster is read later."""
HEARTBEAT_NS = 500_000_000
_BEFORE_OTHER = [0] * (len(PHASES) - 1)
"""`other` is the last phase: the log tells nothing of the ones before it."""


class _Steps(NamedTuple):
    """Steps between two lines, and when those were read; the loss is that of the last one."""

    steps: int
    since: int
    end: int
    loss: float


class Follower:
    """The steps of one rank by its log: their wall time, and nothing of what is inside them.

    The time between two lines is divided among the steps between them. A number that falls to the
    first of an epoch begins anew; where it falls to another (a checkpoint was loaded), and at the
    first line of a loop, it only says where the count begins.
    """

    def __init__(
        self, log: Path, choice: Choice, environment: Mapping[str, str],
        now: Callable[[], int] = monotonic_ns,
    ) -> None:  # fmt: skip
        self._log = log
        self._choice = choice
        self._environment = environment
        self._now = now
        self._offset = 0
        self._rest = b""
        self._last: Said | None = None
        self._since = 0
        self._stride = 0
        self._step: _Steps | None = None
        self._writer: RingWriter | None = None
        self._beaten = 0
        self._over = False

    def look(self, *, alive: bool = True) -> None:
        """Read what is new in the log.

        Args:
            alive: Whether the rank's process runs; one that is stopped has no heartbeat.
        """
        now = self._now()
        for line in self._lines():
            for heard in self._choice.find(line, now):
                self._heard(heard.said, heard.when)
        self._write()
        if self._writer is not None and alive and now - self._beaten >= HEARTBEAT_NS:
            self._writer.heartbeat()
            self._beaten = now

    def close(self, code: int) -> None:
        """Say how the program ended: with 0 or another code; what a signal ended says nothing."""
        if self._writer is not None and not self._over and code >= 0:
            self._writer.state(RankState.FAILED if code else RankState.FINISHED)

    def _lines(self) -> list[str]:
        """Whole lines since the last look; a progress bar ends its own with a carriage return."""
        try:
            descriptor = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            new = os.pread(descriptor, MOST_BYTES, self._offset)
        finally:
            os.close(descriptor)
        self._offset += len(new)
        *whole, rest = (self._rest + new).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[-MOST_BYTES:]
        return [line.decode(errors="replace") for line in whole]

    def _heard(self, said: Said, now: int) -> None:
        last, since = self._last, self._since
        if last is None or last.loop != said.loop:
            self._last, self._since, self._stride = said, now, 0
            return
        if said.step == last.step:
            if self._step is not None and not math.isnan(said.loss):
                self._step = self._step._replace(loss=said.loss)
            return
        steps = said.step - last.step
        if steps > 0:
            self._stride = steps
        elif begins_anew(said.step, self._stride):
            # What an interval of lines leaves untold at the end of an epoch was done, too.
            rest = 0 if last.total is None else last.total - last.step
            steps = said.step + (rest if 0 < rest < self._stride else 0)
        self._last, self._since = said, now
        self._write()
        if 0 < steps <= MOST_STEPS and self._record(last.step):
            self._step = _Steps(steps, since, now, said.loss)

    def _record(self, first_step: int) -> bool:
        """Whether the ring is ours: taken at the first step, and left to whoever took it then."""
        if self._over:
            return False
        if self._writer is None:
            try:
                self._writer = started(self._environment, Means.LOG, first_step=first_step)
            except (UnwritableError, ValueError):
                self._over = True  # a better means records this rank
                return False
        try:
            self._over = self._writer.inode_in_place() != self._writer.inode
        except OSError:
            self._over = True
        return not self._over

    def _write(self) -> None:
        """Record what is not yet: its loss may have stood on the lines after it, until here."""
        steps, self._step = self._step, None
        if steps is None:
            return
        assert self._writer is not None
        wall = (steps.end - steps.since) // steps.steps
        for index in range(steps.steps):
            last = index == steps.steps - 1
            self._writer.end_step(
                start_ns=steps.since + index * wall, wall_ns=wall, cpu_ns=0, own_ns=None,
                wait_ns=None, phase_ns=[*_BEFORE_OTHER, wall], tags=0, samples=0, tokens=0,
                flops=0.0, loss=steps.loss if last else math.nan,
            )  # fmt: skip
