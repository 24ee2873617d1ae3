"""What RAS, Inspector and the flight recorder say of NCCL jobs."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.formats.flight_recorder.dump import Dump, GroupState
from lockstep.collector.sources.nccl.flight_recorder.source import DumpReading
from lockstep.collector.sources.nccl.inspector.source import InspectorReading, NcclInspector
from lockstep.collector.sources.nccl.ras.communicators import (
    MAX_GROUPS,
    MAX_RANKS,
    Group,
    Picture,
    ShownRank,
)
from lockstep.collector.sources.nccl.ras.source import RasReading

MAX_RAS_SERIES = 600
"""Of communicators and ranks; a quarter of a page."""


def collect_ras(reading: RasReading) -> Iterator[Sample]:
    """Samples of every run once, however many addresses tell of it.

    At most MAX_GROUPS communicators and MAX_RANKS ranks in all, those that one needs most; a rank
    is a rank of its communicator.
    """
    events: Counter[tuple[str, str]] = Counter()
    pictures: list[Picture] = []
    for endpoint in reading.endpoints:
        if endpoint.up is not None:
            yield m.NCCL_RAS_UP(int(endpoint.up), endpoint.address)
        for key, count in endpoint.events:
            events[key] += count
        for age, picture in endpoint.pictures:
            yield m.NCCL_RAS_AGE(age, picture.run, endpoint.address)
            if picture.collection_seconds is not None:
                seconds = picture.collection_seconds
                yield m.NCCL_RAS_COLLECTION(seconds, picture.run, endpoint.address)
            if picture.timeouts is not None:
                yield m.NCCL_RAS_TIMEOUTS(picture.timeouts, picture.run, endpoint.address)
            if not any(picture.names & other.names for other in pictures):
                pictures.append(picture)
    for (run, event), count in sorted(events.items()):
        yield m.NCCL_PEER_EVENTS(count, run, event)
    yield from _ras_kinds(pictures)
    groups = [(picture.run, group) for picture in pictures for group in picture.groups]
    groups.sort(key=lambda pair: not pair[1].stuck)
    ranks = [
        (rank.need, run, group.name, rank)
        for run, group in groups[:MAX_GROUPS]
        for rank in group.ranks
    ]
    ranks = sorted(ranks, key=lambda one: one[:3])[:MAX_RANKS]
    samples = chain(
        (sample for pair in groups[:MAX_GROUPS] for sample in _ras_group(*pair)),
        (sample for _, run, name, rank in ranks for sample in _ras_rank(run, name, rank)),
    )
    yield from islice(samples, MAX_RAS_SERIES)


def _ras_kinds(pictures: list[Picture]) -> Iterator[Sample]:
    kinds: Counter[tuple[str, str, str]] = Counter()
    for picture in pictures:
        for (status, health), count in picture.kinds.items():
            kinds[picture.run, status, health] += count
    for key, count in sorted(kinds.items()):
        yield m.NCCL_COMMUNICATORS(count, *key)


def _ras_group(run: str, group: Group) -> Iterator[Sample]:
    key = (run, group.name)
    if group.size is not None:
        yield m.NCCL_COMMUNICATOR_SIZE(group.size, *key)
    if group.missing is not None:
        yield m.NCCL_COMMUNICATOR_MISSING(group.missing, *key)
    if group.stuck is not None:
        yield m.NCCL_COMMUNICATOR_STUCK(int(group.stuck), *key)
    for op, (fewest, most) in sorted(group.launched.items()):
        yield m.NCCL_COMMUNICATOR_LAUNCHED(fewest, *key, op, "min")
        yield m.NCCL_COMMUNICATOR_LAUNCHED(most, *key, op, "max")


def _ras_rank(run: str, name: str, rank: ShownRank) -> Iterator[Sample]:
    key = (run, name, str(rank.rank))
    for op, count in sorted(rank.launched.items()):
        yield m.NCCL_RANK_LAUNCHED(count, *key, op)
        if op in rank.lag:
            yield m.NCCL_RANK_LAG(rank.lag[op], *key, op)
    for state in rank.states:
        yield m.NCCL_RANK_STATE(1, *key, state)


def collect_inspector(reading: InspectorReading) -> Iterator[Sample]:
    """One histogram an operation of a group, four series a range of sizes, three a rank."""
    for operation in reading.operations:
        key = (operation.run, operation.group, operation.op)
        yield from m.NCCL_DURATION.histogram(operation.counts, operation.seconds, *key)
        for sized in operation.sizes:
            yield m.NCCL_COLLECTIVES(sized.count, *key, sized.size)
            yield m.NCCL_BYTES(sized.bytes, *key, sized.size)
            if sized.algorithm is not None and sized.bus is not None:
                yield m.NCCL_ALGORITHM_BANDWIDTH(sized.algorithm, *key, sized.size)
                yield m.NCCL_BUS_BANDWIDTH(sized.bus, *key, sized.size)
    sizes = {(rank.run, rank.group, rank.communicator): rank.size for rank in reading.ranks}
    for communicator, size in sizes.items():
        yield m.NCCL_INSPECTOR_RANKS(size, *communicator)
    for rank in reading.ranks:
        who = (rank.run, rank.group, rank.communicator, str(rank.rank))
        yield m.NCCL_RANK_COLLECTIVES(rank.collectives, *who)
        yield m.NCCL_RANK_SECONDS(rank.seconds, *who)
        if rank.wait is not None:
            yield m.NCCL_RANK_WAIT(rank.wait, *who)
    yield m.NCCL_SEQUENCE_GAPS(reading.gaps)
    yield m.EVENTS_DROPPED(reading.dropped, NcclInspector.name)


MAX_DUMP_STATES = 128
"""Groups of ranks shown, those with an open collective first; four or five series each."""
MAX_DUMP_MISSING = 64


def collect_dumps(reading: DumpReading) -> Iterator[Sample]:
    """Samples of every dump, and who is missing from which collective."""
    for dump in reading.dumps:
        yield m.NCCL_FR_DUMP_AGE(max(0.0, reading.now - dump.written_at), dump.run, str(dump.rank))
    states = [pair for dump in reading.dumps for pair in _dump_states(dump)]
    states.sort(key=lambda pair: not pair[1].open)
    for dump, state in states[:MAX_DUMP_STATES]:
        yield from _dump_state((dump.run, state.group, str(dump.rank)), state)
    absent = {
        (run, absence.group, str(rank)): absence.sequence
        for run, absence in reversed(reading.missing)  # of several, the first sequence stands
        if absence.held_up
        for rank in (*absence.ranks, *absence.silent)
    }
    for key in sorted(absent)[:MAX_DUMP_MISSING]:
        yield m.NCCL_FR_MISSING(absent[key], *key)


def _dump_states(dump: Dump) -> Iterator[tuple[Dump, GroupState]]:
    """Of two groups of one description the one with an open collective stands."""
    shown: set[str] = set()
    for state in sorted(dump.groups, key=lambda each: not each.open):
        if state.group not in shown:
            shown.add(state.group)
            yield dump, state


def _dump_state(key: tuple[str, str, str], state: GroupState) -> Iterator[Sample]:
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
