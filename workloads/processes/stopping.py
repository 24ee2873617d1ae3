"""Says in the rings of a folder that somebody ends their ranks: `python -m ... FOLDER`.

A pod runs it before it is ended (its preStop hook): its ranks have no time for a word of their own,
and who says nothing looks like who went first. It imports as little as it can.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns

from collector.contract import ring
from collector.contract.words import LIVING_STATES, RANK_STATES, RankState

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
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        page = os.pread(descriptor, ring.HEADER_BYTES, 0)
        if len(page) < ring.HEADER_BYTES:
            return  # it is being made
        header = ring.Header(page)
        if header.state >= len(RANK_STATES) or RANK_STATES[header.state] not in LIVING_STATES:
            return
        if monotonic_ns() - header.heartbeat_ns <= ALIVE_NS:
            word = ring.STATE.pack(RANK_STATES.index(RankState.STOPPED))
            os.pwrite(descriptor, word, ring.STATE_OFFSET)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
