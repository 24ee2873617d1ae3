"""Who writes a ring, read from its header with pread."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import LIVING_STATES, RANK_STATES
from lockstep.collector.contract.words import Means as Means
from lockstep.workloads.measure.process import pid_namespace, process_lives
from lockstep.workloads.ring_file import head_of, reading

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
        lives: It has not said that it has ended, its heart beat lately, and its process is there,
            by its pid or its lock.
        waited: The own time of some of its steps is known.
        here: Its pid is of this process's PID namespace, as far as it tells.
    """

    run: str
    attempt: int
    pid: int
    steps: int
    means: str
    lives: bool
    waited: bool
    here: bool = True


def holder(path: Path) -> Holder | None:
    """Who writes the ring; None if there is none."""
    with reading(path) as descriptor:
        page = None if descriptor is None else head_of(descriptor, ring.HEADER_BYTES)
        if descriptor is None or page is None:
            return None
        header = ring.Header(page)
        lives = _lives(header, descriptor)
    who = header.identity
    return Holder(
        run=_text(who.run),
        attempt=who.attempt,
        pid=who.pid,
        steps=header.live.step_cursor,
        means=_text(header.tags[0]),
        lives=lives,
        waited=header.known_steps > 0,
        here=header.pid_namespace in (0, pid_namespace()),
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
    own = other.here and other.pid == pid
    if other.means == Means.SDK:
        return means is Means.SDK and own
    if means is Means.SDK or (other.means == Means.LOG and means is Means.OPTIMIZER):
        return trains
    return trains and (own or other.steps == 0)


def _lives(header: ring.Header, descriptor: int) -> bool:
    """A pid says something in its own PID namespace; elsewhere the kernel tells by the lock.

    Not by the lock everywhere: processes that the writer forked hold it as well. In another
    namespace, as of a container, they end with it. Of a writer without a lock the heartbeat alone
    is known.
    """
    ended = header.state < len(RANK_STATES) and RANK_STATES[header.state] not in LIVING_STATES
    age = (monotonic_ns() - header.heartbeat_ns) / 1e9
    if ended or not 0.0 <= age < FRESH_SECONDS:
        return False
    who = header.identity
    if not header.pid_namespace or header.pid_namespace != pid_namespace():
        return not header.locked or _is_locked(descriptor)
    return who.pid == os.getpid() or process_lives(
        who.pid, by_ns=who.start_wall_ns - who.wall_minus_monotonic_ns
    )


def _is_locked(descriptor: int) -> bool:
    """Whether a writer holds its lock; shared, so that those who ask do not see each other."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # let go as the descriptor closes
    except OSError:  # held, or nobody can tell
        return True
    return False


def _text(padded: bytes) -> str:
    return padded.partition(b"\0")[0].decode(errors="replace")
