"""The ranks of an external program, from the launcher's side."""

import math
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep

from lockstep.collector.contract import ring
from lockstep.workloads.launch.launcher import Ending, Exit, Outcome, Progress
from lockstep.workloads.launch.log_end import last_line
from lockstep.workloads.launch.rank_process import RankProcess
from lockstep.workloads.launch.ring_state import RingState
from lockstep.workloads.launch.watching import (
    POLL_SECONDS,
    Exits,
    crashed,
    exceptions,
    first_to_fail,
    laggards,
    raised_alone,
    stand,
)
from lockstep.workloads.sdk.holder import Holder, holder
from lockstep.workloads.spec import RunSpec

PATIENCE_STEPS = 20.0
"""A step that is expected to take longer than the hang time-out is given so many of the longest."""
REAP_SECONDS = 0.02
"""How finely it is seen which rank ended first."""
END_SECONDS = 10.0
"""A supervisor ends its program within two graces of 2 s; one that does not is killed."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Who does not take part in a collective that others wait in; the sentence says how.

    Attributes:
        seconds: How long the others have waited.
    """

    ranks: tuple[int, ...]
    sentence: str
    seconds: float = math.inf


Explain = Callable[[], Missing | None]


class RankProgram(RankProcess):
    """One rank: its supervisor, and how the program ended."""

    __slots__ = ()

    def holder(self) -> Holder | None:
        """Who recorded its steps; None without a step."""
        known = holder(self.node_dir / ring.file_name(self.rank))
        return None if known is None or known.steps == 0 else known


class Programs:
    """All ranks of an external program; see launchers.Handle.

    Attributes:
        peak_flops: Not known of an external program.
        means: How each rank's steps came to be known (sdk.holder.Means), as far as it was seen by
            now; ranks of which no step was seen are left out.
        own_time_known: Whether the own time of any step of any rank is known by now; the steps say
            of which.
    """

    peak_flops: float | None = None

    def __init__(self, spec: RunSpec, ranks: list[RankProgram], explain: Explain) -> None:
        self.means: dict[int, str] = {}
        self.own_time_known = False
        self._spec = spec
        self._ranks = ranks
        self._explain = explain

    @property
    def pids(self) -> dict[int, int]:
        """Supervisor's process id by rank."""
        return {rank.rank: rank.pid for rank in self._ranks}

    def wait(self, on_progress: Callable[[Progress], None]) -> Outcome:
        """Watch until all ranks have ended; end them after a crash or a hang.

        A program of which no step was seen is not ended for that: perhaps its steps cannot be
        seen. Then only a collective that ranks have waited in for so long is a hang.
        """
        try:
            return self._watched(on_progress)
        finally:
            self._look_at_holders()  # before any ring goes, whatever ended the wait

    def end(self) -> None:
        """End every rank that still runs, with all processes that it started."""
        for number, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, END_SECONDS)):
            for rank in self._ranks:
                if not rank.reap():
                    os.kill(rank.pid, number)
                    os.kill(rank.pid, signal.SIGCONT)
            deadline = monotonic() + seconds
            while not all(rank.reap() for rank in self._ranks):
                if monotonic() > deadline:
                    break
                sleep(POLL_SECONDS / 5)
            else:
                return

    def _look_at_holders(self) -> None:
        """Note who recorded the steps of each rank, and whether any own time is known."""
        for rank in self._ranks:
            if (known := rank.holder()) is not None:
                self.means[rank.rank] = known.means
                self.own_time_known = self.own_time_known or known.waited

    def _watched(self, on_progress: Callable[[Progress], None]) -> Outcome:
        pulse, look, exits = _Pulse(self._spec.hang_timeout), 0.0, Exits(self._ranks)
        while True:
            ended = exits.look()
            if first_to_fail(ended):
                return crashed(self._ranks, exits, self.end)
            if len(ended) == len(self._ranks):
                return Outcome(Ending.FINISHED)
            if monotonic() < look:
                sleep(REAP_SECONDS)
                continue
            look = monotonic() + POLL_SECONDS
            states = [known for rank in self._ranks if (known := rank.ring_state())]
            if pulse.moved([state.steps for state in states]):
                self._look_at_holders()
                on_progress(_progress(states))
            elif pulse.stopped():
                missing = self._explain()
                if pulse.began or (missing is not None and missing.seconds >= pulse.patience):
                    return self._hang(pulse, missing, ended)
                on_progress(Progress(0, 0, None, unseen_seconds=pulse.ask_again()))

    def _hang(self, pulse: "_Pulse", missing: Missing | None, ended: tuple[Exit, ...]) -> Outcome:
        late = laggards(self._ranks) if missing is None else missing.ranks
        raised = exceptions(self._ranks, ended)
        self.end()
        parts = [f"no rank completed a step for {pulse.patience:.0f} s"]
        if missing is not None:
            parts.append(missing.sentence)
        # An exception does not end every program: gloo's threads can hold one that raised.
        if who := raised_alone(raised, len(self._ranks)):
            late = who
            parts += stand(raised)
        else:
            wrote = {
                watched.rank: last_line(watched.log)
                for watched in self._ranks
                if watched.rank in late
            }
            parts += [f"rank {rank} last wrote: {line}" for rank, line in wrote.items() if line]
        return Outcome(Ending.HANG, late, "; ".join(parts), ended, raised)


class _Pulse:
    """Whether steps still come, and how long to wait for the next one."""

    def __init__(self, hang_timeout: float) -> None:
        self._steps = 0
        self._seen = 0
        self._began = self._moved = monotonic()
        self._longest = 0.0
        self._hang_timeout = hang_timeout

    @property
    def began(self) -> bool:
        """Whether any step was seen."""
        return self._seen > 0

    @property
    def patience(self) -> float:
        """Seconds without a step that are a hang."""
        return max(self._hang_timeout, PATIENCE_STEPS * self._longest)

    def moved(self, steps: list[int]) -> bool:
        """Whether any rank has completed another step since the last call."""
        total, now = sum(steps), monotonic()
        if total <= self._steps:
            return False
        if self._seen:
            self._longest = max(self._longest, (now - self._moved) / (total - self._steps))
        self._steps, self._moved = total, now
        self._seen += 1
        return True

    def stopped(self) -> bool:
        """Whether the next step is overdue."""
        return monotonic() - self._moved > self.patience

    def ask_again(self) -> float:
        """Be as patient once more; seconds since the start."""
        self._moved = monotonic()
        return self._moved - self._began


def _progress(states: list[RingState]) -> Progress:
    """The slowest of the ranks that have shown a step: often only one writes a log."""
    steps = [state.steps for state in states if state.steps]
    losses = [state.loss for state in states if not math.isnan(state.loss)]
    return Progress(min(steps, default=0), 0, losses[0] if losses else None)
