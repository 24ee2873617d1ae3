"""What a rank's ring says of where it is, read as the collector reads it: with pread."""

from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import PHASES, Phase
from lockstep.workloads.new_file import head


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
