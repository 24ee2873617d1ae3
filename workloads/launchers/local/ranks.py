"""The ranks of a local run, from the launcher's side: progress, hangs, crashes, the end."""

import math
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from collector.contract import ring
from workloads.launchers import PEER_LOST_CODE, Ending, Outcome, Progress
from workloads.resume import about
from workloads.spec import RunSpec

POLL_SECONDS = 0.1
STARTUP_SECONDS = 60.0
AFTERMATH_SECONDS = 3.0
"""How long the survivors of a crash are kept, so that two scrapes see who is gone."""
FROZEN_SECONDS = 3.0
"""A process whose heartbeat (one in half a second) is older stands still."""
GRACE_SECONDS = 2.0
"""Between SIGTERM and SIGKILL."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a rank's ring says.

    Attributes:
        steps: Completed.
        loss: The last one; NaN = it knows none.
        arrived: Collectives that it has arrived at.
        waits: It is inside a collective now.
        heartbeat_age: Seconds since its helper thread ran.
    """

    steps: int
    loss: float
    arrived: int
    waits: bool
    heartbeat_age: float


@dataclass(slots=True)
class RankProcess:
    """One rank: its process, and how it ended (`status` as waitpid gives it)."""

    rank: int
    pid: int
    node_dir: Path
    log: Path
    status: int | None = None

    def reap(self) -> bool:
        """Whether the process has ended by now."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None

    def how(self) -> str:
        """How it ended, in words, with the last line it wrote."""
        assert self.status is not None
        if os.WIFSIGNALED(self.status):
            return f"killed by {signal.Signals(os.WTERMSIG(self.status)).name}"
        lines = self.log.read_text(errors="replace").strip().splitlines()
        last = f": {lines[-1][:300]}" if lines else ""
        return f"exited with code {os.waitstatus_to_exitcode(self.status)}{last}"

    def told(self) -> "Told | None":
        """What its ring says; None before there is one."""
        try:
            descriptor = os.open(self.node_dir / ring.file_name(self.rank), os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            header = os.pread(descriptor, ring.HEADER_BYTES, 0)
        finally:
            os.close(descriptor)
        totals = ring.COUNTERS.unpack_from(header, ring.COUNTERS_OFFSET)
        groups = ring.GROUP_COUNTERS.iter_unpack(
            header[ring.GROUP_COUNTERS_OFFSET :][: ring.MAX_GROUPS * ring.GROUP_COUNTERS.size]
        )
        live = ring.LIVE.unpack_from(header, ring.LIVE_OFFSET)
        (beat,) = ring.HEARTBEAT.unpack_from(header, ring.HEARTBEAT_OFFSET)
        return Told(
            steps=totals[0],
            loss=totals[7],
            arrived=sum(enqueued for _, _, enqueued, _ in groups),
            waits=live[4] != 0,
            heartbeat_age=monotonic() - beat / 1e9,
        )


class Ranks:
    """All ranks of a run; see launchers.Handle.

    Attributes:
        peak_flops: FLOP/s of one core in matrix products, measured before the ranks started.
    """

    def __init__(
        self, spec: RunSpec, ranks: list[RankProcess], peak_flops: float | None = None
    ) -> None:
        self.peak_flops = peak_flops
        self._spec = spec
        self._ranks = ranks

    @property
    def pids(self) -> dict[int, int]:
        """Process id by rank."""
        return {process.rank: process.pid for process in self._ranks}

    def wait(self, on_progress: Callable[[Progress], None]) -> Outcome:
        """Watch until all ranks have ended; end them after a crash or a hang."""
        step, moved, patience = -1, monotonic(), STARTUP_SECONDS
        resume = self._spec.training.resume
        resumed = 0 if resume is None else about(Path(resume)).step
        while True:
            ended = [process for process in self._ranks if process.reap()]
            if self._crashed(ended):
                sleep(AFTERMATH_SECONDS)
                crashed = self._crashed([process for process in self._ranks if process.reap()])
                self.end()
                ranks = tuple(process.rank for process in crashed)
                return Outcome(Ending.CRASH, ranks, crashed[0].how())
            if len(ended) == len(self._ranks):
                return Outcome(Ending.FINISHED)
            progress = self._progress()
            if progress.step > step:
                if progress.step > resumed:
                    patience = self._spec.hang_timeout
                step, moved = progress.step, monotonic()
                on_progress(progress)
            elif monotonic() - moved > patience:
                laggards = self._laggards()
                self.end()
                return Outcome(
                    Ending.HANG, laggards, f"no rank completed a step for {patience:g} s"
                )
            sleep(POLL_SECONDS)

    def end(self) -> None:
        """End every rank that still runs; stopped ones too."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._ranks:
                if not process.reap():
                    os.kill(process.pid, number)
                    os.kill(process.pid, signal.SIGCONT)
            deadline = monotonic() + GRACE_SECONDS
            while not all(process.reap() for process in self._ranks):
                if monotonic() > deadline:
                    break
                sleep(POLL_SECONDS / 5)
            else:
                return

    def _crashed(self, ended: list[RankProcess]) -> list[RankProcess]:
        """The ranks that died by themselves.

        One that a signal killed goes before the others, and those that only missed it come last.
        """
        failed = [process for process in ended if process.status]
        codes = {p.rank: os.waitstatus_to_exitcode(p.status or 0) for p in failed}
        by_signal = [process for process in failed if codes[process.rank] < 0]
        first = [process for process in failed if codes[process.rank] != PEER_LOST_CODE]
        return by_signal or first or failed

    def _progress(self) -> Progress:
        told = [known for process in self._ranks if (known := process.told())]
        all_there = len(told) == len(self._ranks)
        step = min((one.steps for one in told), default=0) if all_there else 0
        # Only the last stage knows the loss.
        losses = [one.loss for one in told if not math.isnan(one.loss)]
        return Progress(step, self._spec.steps, losses[0] if losses else None)

    def _laggards(self) -> tuple[int, ...]:
        """The ranks that hold the others up: frozen, or not where all others wait; else unknown.

        Stages of a pipeline arrive at different numbers of collectives, so the fewest arrivals
        tell only where all ranks wait.
        """
        told = {process.rank: known for process in self._ranks if (known := process.told())}
        fewest = min((one.arrived for one in told.values()), default=0)
        for holds_up in (
            lambda one: one.heartbeat_age > FROZEN_SECONDS,
            lambda one: not one.waits,
            lambda one: one.arrived == fewest,
        ):
            found = tuple(rank for rank, one in told.items() if holds_up(one))
            if 0 < len(found) < len(self._ranks):
                return found
        return ()
