"""How far the node's wall clock may be from the others'."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.kernel_clock import ClockState


def collect(clock: ClockState) -> Iterator[Sample]:
    """The kernel's own word on its clock."""
    yield m.CLOCK_OFFSET(clock.offset)
    yield m.CLOCK_MAX_ERROR(clock.max_error)
    yield m.CLOCK_SYNCHRONIZED(int(clock.synchronized))
