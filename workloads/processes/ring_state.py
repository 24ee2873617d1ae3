"""What a rank's ring says of where it is, read as the collector reads it: with pread."""

import os
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from collector.contract import ring
from collector.contract.words import PHASES, Phase


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
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        header = os.pread(descriptor, ring.HEADER_BYTES, 0)
    finally:
        os.close(descriptor)
    if len(header) < ring.HEADER_BYTES:
        return None  # it is being made
    totals = ring.COUNTERS.unpack_from(header, ring.COUNTERS_OFFSET)
    groups = ring.GROUP_COUNTERS.iter_unpack(
        header[ring.GROUP_COUNTERS_OFFSET :][: ring.MAX_GROUPS * ring.GROUP_COUNTERS.size]
    )
    live = ring.LIVE.unpack_from(header, ring.LIVE_OFFSET)
    (beat,) = ring.HEARTBEAT.unpack_from(header, ring.HEARTBEAT_OFFSET)
    return RingState(
        steps=totals[0],
        loss=totals[7],
        arrived=sum(enqueued for _, _, enqueued, _ in groups),
        waits=live[4] != 0,
        heartbeat_age=monotonic() - beat / 1e9,
        evaluates=live[3] == PHASES.index(Phase.EVAL),
        progress_age=monotonic() - live[9] / 1e9,
    )
