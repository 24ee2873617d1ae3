"""What the dumps of PyTorch's flight recorder say about the ranks of this node."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.flight_recorder import Dump, DumpReading, GroupState

MAX_STATES = 128
"""Groups of ranks shown, those with an open collective first; four or five series each."""
MAX_MISSING = 64


def collect(reading: DumpReading) -> Iterator[Sample]:
    """Samples of every dump, and who is missing from which collective."""
    for dump in reading.dumps:
        yield m.NCCL_FR_DUMP_AGE(max(0.0, reading.now - dump.written_at), dump.run, str(dump.rank))
    states = [pair for dump in reading.dumps for pair in _states(dump)]
    states.sort(key=lambda pair: not pair[1].open)
    for dump, state in states[:MAX_STATES]:
        yield from _state((dump.run, state.group, str(dump.rank)), state)
    absent = {
        (run, one.group, str(rank)): one.sequence
        for run, one in reversed(reading.missing)  # of several, the first sequence stands
        if one.held_up
        for rank in (*one.ranks, *one.silent)
    }
    for key in sorted(absent)[:MAX_MISSING]:
        yield m.NCCL_FR_MISSING(absent[key], *key)


def _states(dump: Dump) -> Iterator[tuple[Dump, GroupState]]:
    """Of two groups of one description the one with an open collective stands."""
    shown: set[str] = set()
    for state in sorted(dump.groups, key=lambda each: not each.open):
        if state.group not in shown:
            shown.add(state.group)
            yield dump, state


def _state(key: tuple[str, str, str], state: GroupState) -> Iterator[Sample]:
    for metric, sequence in (
        (m.NCCL_FR_ENQUEUED, state.enqueued),
        (m.NCCL_FR_STARTED, state.started),
        (m.NCCL_FR_COMPLETED, state.completed),
    ):
        if sequence is not None:
            yield metric(sequence, *key)
    if state.open:
        oldest = state.open[0]
        yield m.NCCL_FR_STUCK(oldest.waited_seconds, *key, oldest.op)
