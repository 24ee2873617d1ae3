"""Watches the ranks of a run, whoever started them: progress, hangs, crashes, the end."""

import math
import os
import signal
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Protocol

from lockstep.collector.contract.words import OWN_SIGNALS, without_numbers
from lockstep.workloads.launch.launcher import (
    PEER_LOST_CODE,
    Ending,
    Exit,
    Outcome,
    Progress,
    Raised,
)
from lockstep.workloads.launch.log_end import of_a_connection, of_a_lost_peer
from lockstep.workloads.launch.ring_state import RingState
from lockstep.workloads.loop.resume import about
from lockstep.workloads.spec import RunSpec

# The order in which ranks ended by themselves, and which of them failed first.

TOGETHER_SECONDS = 0.5
"""Ends that are seen so close to each other may have happened in the other order: a rank is looked
at in turns, what a dead program left is ended first, and a keeper's word takes its time. No
measurement: a few of the watching loops' pauses, and less than a launcher takes to end a rank."""


class Ended(Protocol):
    """One rank, wherever it runs; `status` is how it ended, as waitpid gives it."""

    @property
    def rank(self) -> int:
        """Its rank."""
        ...

    @property
    def status(self) -> int | None:
        """How it ended, as far as `reap` has seen it."""
        ...

    def reap(self) -> bool:
        """Whether it has ended by now."""
        ...


class Exits:
    """When the ends of ranks were first seen.

    Args:
        ranks: All of a run.
        now: Seconds of a clock that only rises.
    """

    def __init__(self, ranks: Sequence[Ended], now: Callable[[], float] = monotonic) -> None:
        self._ranks = ranks
        self._now = now
        self._seen: dict[int, tuple[int, float]] = {}

    def look(self) -> tuple[Exit, ...]:
        """All that have ended, in the order in which that was seen."""
        for watched in self._ranks:
            if watched.rank not in self._seen and watched.reap():
                code = os.waitstatus_to_exitcode(watched.status or 0)
                self._seen[watched.rank] = (code, self._now())
        begin = min((when for _, when in self._seen.values()), default=0.0)
        return tuple(
            Exit(rank, code, round(when - begin, 3)) for rank, (code, when) in self._seen.items()
        )


def first_to_fail(exits: Sequence[Exit], follow: Container[int] = ()) -> tuple[int, ...]:
    """The ranks whose end began a crash; several where it cannot be told, none without a failure.

    The earliest failures; of those that were seen together one that a signal ended goes before
    those that ended themselves, and ranks that only missed another one come last.

    Args:
        follow: Ranks that wrote that they missed another one.
    """
    failed = [ending for ending in exits if ending.code]
    alone = [
        ending for ending in failed if ending.code != PEER_LOST_CODE and ending.rank not in follow
    ]
    alone = alone or failed
    earliest = min((ending.seconds for ending in alone), default=0.0)
    together = [ending for ending in alone if ending.seconds <= earliest + TOGETHER_SECONDS]
    return tuple(one.rank for one in ([e for e in together if struck(e)] or together))


def struck(ended: Exit) -> bool:
    """Whether a signal ended it that a program does not send itself for another's failure."""
    return ended.code < 0 and -ended.code not in OWN_SIGNALS


POLL_SECONDS = 0.1
STARTUP_SECONDS = 60.0
AFTERMATH_SECONDS = 3.0
"""How long the survivors of a crash are kept, so that two scrapes see who is gone."""
FROZEN_SECONDS = 3.0
"""A process whose heartbeat (one in half a second) is older stands still."""


class WatchedRank(Ended, Protocol):
    """One rank, wherever it runs."""

    def ring_state(self) -> RingState | None:
        """What its ring says; None before there is one."""
        ...

    def how(self) -> str:
        """How it ended, in words."""
        ...

    def raised(self) -> str:
        """The exception that ended it or its work; empty = none, or a signal ended it."""
        ...


def watch(
    spec: RunSpec,
    ranks: Sequence[WatchedRank],
    end: Callable[[], None],
    on_progress: Callable[[Progress], None],
    lost: Callable[[], str | None] = lambda: None,
    startup_seconds: float = STARTUP_SECONDS,
) -> Outcome:
    """Watch until all ranks have ended; end them after a crash or a hang.

    Args:
        end: Ends all ranks.
        lost: Why nothing more will be heard of the ranks; None while that is not so.
        startup_seconds: How long the first step may take.
    """
    step, moved, patience = -1, monotonic(), max(startup_seconds, spec.hang_timeout)
    resume = spec.training.resume
    exits = Exits(ranks)
    resumed = 0 if resume is None else about(Path(resume)).step
    while True:
        why = lost()  # asked first: what was told before counts
        ended = exits.look()
        if first_to_fail(ended):
            return crashed(ranks, exits, end)
        if len(ended) == len(ranks):
            return Outcome(Ending.FINISHED)
        if why is not None:
            end()
            return Outcome(Ending.CRASH, (), why, ended)
        progress = progress_of(spec, ranks)
        if progress.step > step:
            if progress.step > resumed:
                patience = spec.hang_timeout
            step, moved = progress.step, monotonic()
            on_progress(progress)
        elif any(_evaluates(watched, patience) for watched in ranks):
            moved = monotonic()
        elif monotonic() - moved > patience:
            late, raised = laggards(ranks), exceptions(ranks, ended)
            end()
            late = raised_alone(raised, len(ranks)) or late
            reason = "; ".join([f"no rank completed a step for {patience:g} s", *stand(raised)])
            return Outcome(Ending.HANG, late, reason, ended, raised)
        sleep(POLL_SECONDS)


def crashed(ranks: Sequence[WatchedRank], exits: Exits, end: Callable[[], None]) -> Outcome:
    """Keeps what survives a while, so that scrapes see who is gone, and ends it."""
    ended, until = exits.look(), monotonic() + AFTERMATH_SECONDS
    while monotonic() < until:
        sleep(POLL_SECONDS / 5)
        ended = exits.look()
    raised = exceptions(ranks, ended)
    first = left_early(ranks, ended) or _first_to_fail(ended, raised)
    end()
    by_rank = {watched.rank: watched for watched in ranks}
    gone = {ending.rank for ending in ended}
    how = by_rank[first[0]].how() if first[0] in gone else stand(raised)[0]
    return Outcome(Ending.CRASH, first, how, ended, raised)


def exceptions(ranks: Sequence[WatchedRank], exits: Sequence[Exit]) -> tuple[Raised, ...]:
    """The exceptions with which logs of ranks end, of those that ended and of those that stand.

    Whose connection was lost, such an exception does not always say. It was a peer's where another
    rank had failed before, of itself.
    """
    texts = {watched.rank: text for watched in ranks if (text := watched.raised())}
    follow = {rank for rank, text in texts.items() if of_a_lost_peer(text)}
    lost = {rank for rank, text in texts.items() if of_a_connection(text)} - follow
    failed = [ending for ending in exits if ending.code and ending.rank not in follow | lost]
    begin = min((ending.seconds for ending in failed), default=math.inf)
    before = {ending.rank for ending in exits if ending.seconds <= begin}
    follow |= lost - before if failed else set()
    return tuple(Raised(rank, text, rank in follow) for rank, text in texts.items())


def raised_alone(raised: Sequence[Raised], world: int) -> tuple[int, ...]:
    """The ranks that raised an exception of their own, where they are fewer than all."""
    own = tuple(failure.rank for failure in raised if not failure.of_lost_peer)
    return own if len(own) < world else ()


def stand(raised: Sequence[Raised]) -> list[str]:
    """What is said of ranks that raised, and whose processes are still there."""
    return [
        f"rank {failure.rank} raised {failure.error}, and its process has not ended"
        for failure in raised
        if not failure.of_lost_peer
    ]


def _first_to_fail(exits: Sequence[Exit], raised: Sequence[Raised]) -> tuple[int, ...]:
    """As `first_to_fail`, by what ranks wrote: an exception of a lost peer follows from another.

    Where only such ranks have ended, a rank that raised another exception holds on to its process.
    All that raised the same exception as the first, but for numbers, failed alike.
    """
    follow = {failure.rank for failure in raised if failure.of_lost_peer}
    own = {
        failure.rank: without_numbers(failure.error)
        for failure in raised
        if failure.rank not in follow
    }
    first = first_to_fail(exits, follow)
    gone = {ending.rank for ending in exits}
    if follow.issuperset(first):
        first = tuple(rank for rank in own if rank not in gone) or first
    alike = {own[rank] for rank in first if rank in own}
    return (*first, *(rank for rank in own if own[rank] in alike and rank not in first))


def left_early(ranks: Sequence[WatchedRank], exits: Sequence[Exit]) -> tuple[int, ...]:
    """Ranks that ended as if all were done, before a collective in which another one failed."""
    arrived = {watched.rank: state.arrived for watched in ranks if (state := watched.ring_state())}
    failed = next((ending for ending in exits if ending.code), None)
    if failed is None:
        return ()
    before = [ending.rank for ending in exits[: exits.index(failed)] if ending.code == 0]
    behind = [rank for rank in before if arrived.get(rank, 0) < arrived.get(failed.rank, 0)]
    return tuple(behind) if failed.code > 0 and all(rank in arrived for rank in behind) else ()


def _evaluates(one: WatchedRank, patience: float) -> bool:
    """Whether a rank gets on with an evaluation, which may take longer than many steps."""
    state = one.ring_state()
    return state is not None and state.evaluates and state.progress_age < patience


def progress_of(spec: RunSpec, ranks: Sequence[WatchedRank]) -> Progress:
    """Where the slowest rank is; 0 until all have been heard of."""
    states = [known for watched in ranks if (known := watched.ring_state())]
    step = min((state.steps for state in states), default=0) if len(states) == len(ranks) else 0
    # Only the last stage knows the loss.
    losses = [state.loss for state in states if not math.isnan(state.loss)]
    return Progress(step, spec.steps, losses[0] if losses else None)


def laggards(ranks: Sequence[WatchedRank]) -> tuple[int, ...]:
    """The ranks that hold the others up: frozen, or not where all others wait; else unknown.

    Stages of a pipeline arrive at different numbers of collectives, so the fewest arrivals
    tell only where all ranks wait. Ranks whose steps come from their logs arrive nowhere: the
    fewest steps tell of them, and last of all. Ranks that tell nothing are not compared.
    """
    states = {watched.rank: known for watched in ranks if (known := watched.ring_state())}
    frozen = tuple(rank for rank, one in states.items() if one.heartbeat_age > FROZEN_SECONDS)
    if 0 < len(frozen) < len(ranks):
        return frozen
    arrived = min((state.arrived for state in states.values()), default=0)
    steps = min((state.steps for state in states.values()), default=0)
    for holds_up in (
        lambda one: not one.waits,
        lambda one: one.arrived == arrived,
        lambda one: one.steps == steps,
    ):
        late = tuple(rank for rank, one in states.items() if holds_up(one))
        if 0 < len(late) < len(states):
            return late
    return ()


def by_itself(status: int | None) -> bool:
    """Whether an exception may have ended a process, or its work: no clean end, and no signal.

    A signal that a program sends itself is its own end, as std::terminate's.
    """
    code = 1 if status is None else os.waitstatus_to_exitcode(status)
    return code > 0 or -code in OWN_SIGNALS


def how_it_ended(status: int, last: str) -> str:
    """How a process ended, in words, with the last line it wrote."""
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    after = f": {last}" if last else ""
    return f"exited with code {os.waitstatus_to_exitcode(status)}{after}"
