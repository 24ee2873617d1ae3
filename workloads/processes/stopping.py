"""Says in the rings of a folder that somebody ends their ranks: `python -m ... FOLDER`.

A pod runs it before it is ended (its preStop hook): its ranks have no time for a word of their own,
and who says nothing looks like who went first. It imports as little as it can.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import LIVING_STATES, RANK_STATES, RankState

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
