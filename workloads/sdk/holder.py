"""Who writes a ring, read from its header with pread."""

import os
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from collector.contract import ring
from collector.contract.words import Means as Means

FRESH_SECONDS = 3.0
"""A heartbeat (one in half a second) that is older is of a process that is gone or stands still."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes a ring.

    Attributes:
        pid: As it knows itself.
        steps: That it has recorded.
        means: The first tag: how it knows them.
        lives: Its heart beat lately.
        waited: The own time of some of its steps is known.
    """

    run: str
    pid: int
    steps: int
    means: str
    lives: bool
    waited: bool


def holder(path: Path) -> Holder | None:
    """Who writes the ring; None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        page = os.pread(descriptor, ring.HEADER_BYTES, 0)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if len(page) < ring.HEADER_BYTES:
        return None
    header = ring.Header(page)
    return Holder(
        run=_text(header.identity.run),
        pid=header.identity.pid,
        steps=header.counters.steps,
        means=_text(header.tags[0]),
        lives=0.0 <= monotonic() - header.heartbeat_ns / 1e9 < FRESH_SECONDS,
        waited=header.known_steps > 0,
    )


def may_take(other: Holder, run: str, pid: int, means: Means, *, trains: bool) -> bool:
    """Whether the process `pid` may put its ring in the place of another one.

    The better means wins. Of two that only watch torch, one that trains wins over one that has not
    trained yet; a log counts where torch's optimizers do not.
    """
    if not other.lives or other.run != run:
        return True
    if other.means == Means.SDK:
        return means is Means.SDK and other.pid == pid
    if means is Means.SDK or (other.means == Means.LOG and means is Means.OPTIMIZER):
        return trains
    return trains and (other.pid == pid or other.steps == 0)


def _text(padded: bytes) -> str:
    return padded.partition(b"\0")[0].decode(errors="replace")
