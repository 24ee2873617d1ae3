"""Who writes a ring, read from its header with pread."""

import os
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

from collector.contract import ring
from collector.contract.words import LIVING_STATES, RANK_STATES
from collector.contract.words import Means as Means
from workloads.new_file import head
from workloads.process_life import pid_namespace, process_lives

FRESH_SECONDS = 3.0
"""A heartbeat (one in half a second) that is older is of a process that is gone or stands still."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes a ring.

    Attributes:
        attempt: Of its run, as the launcher counts them.
        pid: As it knows itself.
        steps: That it has recorded.
        means: The first tag: how it knows them.
        lives: It has not said that it has ended, its heart beat lately, and its process is there.
        waited: The own time of some of its steps is known.
    """

    run: str
    attempt: int
    pid: int
    steps: int
    means: str
    lives: bool
    waited: bool


def holder(path: Path) -> Holder | None:
    """Who writes the ring; None if there is none."""
    page = head(path, ring.HEADER_BYTES)
    if page is None:
        return None
    header = ring.Header(page)
    who = header.identity
    return Holder(
        run=_text(who.run),
        attempt=who.attempt,
        pid=who.pid,
        steps=header.live.step_cursor,
        means=_text(header.tags[0]),
        lives=_lives(header),
        waited=header.known_steps > 0,
    )


def may_take(
    other: Holder, run: str, attempt: int, pid: int, means: Means, *, trains: bool
) -> bool:
    """Whether the process `pid` may put its ring in the place of another one.

    A later attempt of a run takes the place of an earlier one. Else the better means wins. Of two
    that only watch torch, one that trains wins over one that has not trained yet; a log counts
    where torch's optimizers do not.
    """
    if not other.lives or other.run != run or other.attempt < attempt:
        return True
    if other.means == Means.SDK:
        return means is Means.SDK and other.pid == pid
    if means is Means.SDK or (other.means == Means.LOG and means is Means.OPTIMIZER):
        return trains
    return trains and (other.pid == pid or other.steps == 0)


def _lives(header: ring.Header) -> bool:
    """Of a process in another PID namespace the heartbeat alone is known."""
    ended = header.state < len(RANK_STATES) and RANK_STATES[header.state] not in LIVING_STATES
    age = (monotonic_ns() - header.heartbeat_ns) / 1e9
    if ended or not 0.0 <= age < FRESH_SECONDS:
        return False
    who = header.identity
    if not header.pid_namespace or header.pid_namespace != pid_namespace():
        return True
    return who.pid == os.getpid() or process_lives(
        who.pid, by_ns=who.start_wall_ns - who.wall_minus_monotonic_ns
    )


def _text(padded: bytes) -> str:
    return padded.partition(b"\0")[0].decode(errors="replace")
