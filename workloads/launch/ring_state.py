"""The state of a rank in its ring: read with pread as the collector does, and set from outside."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, monotonic_ns

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import LIVING_STATES, PHASES, RANK_STATES, Phase, RankState
from lockstep.workloads.ring_file import head


@dataclass(frozen=True, slots=True)
class RingState:
    """What a rank's ring says.

    Attributes:
        steps: Completed.
        loss: The last one; NaN = it knows none.
        arrived: Collectives that it has arrived at.
        waits: It is inside a collective now.
        heartbeat_age: Seconds since its helper thread ran.
        evaluates: It is in an evaluation now.
        progress_age: Seconds since its training thread began or ended something.
    """

    steps: int
    loss: float
    arrived: int
    waits: bool
    heartbeat_age: float
    evaluates: bool = False
    progress_age: float = 0.0


def read_ring_state(path: Path) -> RingState | None:
    """What the ring file says; None before there is one."""
    page = head(path, ring.HEADER_BYTES)
    if page is None:
        return None
    header = ring.Header(page)
    live, counters = header.live, header.counters
    return RingState(
        steps=counters.steps,
        loss=counters.loss,
        arrived=sum(group.enqueued for group in header.groups),
        waits=live.op != 0,
        heartbeat_age=monotonic() - header.heartbeat_ns / 1e9,
        evaluates=live.phase == PHASES.index(Phase.EVAL),
        progress_age=monotonic() - live.progress_ns / 1e9,
    )


# As a program (`python -m lockstep.workloads.launch.ring_state FOLDER`) this writes into the rings
# of a folder that their ranks are ended from outside. A pod runs it in its preStop hook: its ranks
# have no time to write it, and a rank that ends without it looks like the first to fail.

ALIVE_NS = 3_000_000_000
"""How old the heartbeat of a living rank is at most, as where its process is not visible
(lockstep_rank_up): who died before was not ended by this."""


def main(folder: Path) -> None:
    """Say it for every rank that lives."""
    for path in folder.glob(f"*{ring.FILE_SUFFIX}"):
        with suppress(OSError):
            say_stopped(path)


def say_stopped(path: Path) -> None:
    """Say in a rank's ring that it is ended from outside, if it lives.

    Raises:
        OSError: The file cannot be read or written.
    """
    _say(path, RankState.STOPPED, LIVING_STATES, newest=monotonic_ns() - ALIVE_NS)


def say_failed(path: Path) -> None:
    """Say in the ring of a rank that has ended with an exit code that it failed.

    As it went by `sys.exit(3)` Python told nobody the code: its own last word is that it finished.

    Raises:
        OSError: The file cannot be read or written.
    """
    _say(path, RankState.FAILED, frozenset({RankState.FINISHED}))


def _say(path: Path, state: RankState, of: frozenset[RankState], newest: int = 0) -> None:
    """Say it in a ring that says one of some states, and whose heartbeat is no older.

    Args:
        newest: CLOCK_MONOTONIC, nanoseconds.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        page = os.pread(descriptor, ring.HEADER_BYTES, 0)
        if len(page) < ring.HEADER_BYTES:
            return  # it is being made
        header = ring.Header(page)
        if header.state >= len(RANK_STATES) or RANK_STATES[header.state] not in of:
            return
        if header.heartbeat_ns >= newest:
            os.pwrite(descriptor, ring.STATE.pack(RANK_STATES.index(state)), ring.STATE_OFFSET)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
