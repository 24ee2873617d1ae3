"""How ranks ended by themselves, in which order, and whose end was the first failure."""

import os
from collections.abc import Callable, Container, Sequence
from time import monotonic
from typing import Protocol

from lockstep.collector.contract.words import OWN_SIGNALS
from lockstep.workloads.launchers import PEER_LOST_CODE, Exit

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
        for one in self._ranks:
            if one.rank not in self._seen and one.reap():
                code = os.waitstatus_to_exitcode(one.status or 0)
                self._seen[one.rank] = (code, self._now())
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
    failed = [one for one in exits if one.code]
    alone = [one for one in failed if one.code != PEER_LOST_CODE and one.rank not in follow]
    alone = alone or failed
    earliest = min((one.seconds for one in alone), default=0.0)
    together = [one for one in alone if one.seconds <= earliest + TOGETHER_SECONDS]
    return tuple(one.rank for one in ([e for e in together if struck(e)] or together))


def struck(one: Exit) -> bool:
    """Whether a signal ended it that a program does not send itself for another's failure."""
    return one.code < 0 and -one.code not in OWN_SIGNALS
