"""What NCCL's RAS says about the runs whose rank 0 is on this node."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.nccl_ras import RasReading
from lockstep.collector.sources.nccl_ras.picture import (
    MAX_GROUPS,
    MAX_RANKS,
    Group,
    Picture,
    ShownRank,
)

MAX_SERIES = 600
"""Of communicators and ranks; a quarter of a page."""


def collect(reading: RasReading) -> Iterator[Sample]:
    """Samples of every run once, however many addresses tell of it.

    At most MAX_GROUPS communicators and MAX_RANKS ranks in all, those that one needs most; a rank
    is a rank of its communicator.
    """
    events: Counter[tuple[str, str]] = Counter()
    told: list[Picture] = []
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
            if not any(picture.names & other.names for other in told):
                told.append(picture)
    for (run, event), count in sorted(events.items()):
        yield m.NCCL_PEER_EVENTS(count, run, event)
    yield from _kinds(told)
    groups = [(picture.run, group) for picture in told for group in picture.groups]
    groups.sort(key=lambda pair: not pair[1].stuck)
    ranks = [
        (rank.need, run, group.name, rank)
        for run, group in groups[:MAX_GROUPS]
        for rank in group.ranks
    ]
    ranks = sorted(ranks, key=lambda one: one[:3])[:MAX_RANKS]
    samples = chain(
        (sample for pair in groups[:MAX_GROUPS] for sample in _group(*pair)),
        (sample for _, run, name, rank in ranks for sample in _rank(run, name, rank)),
    )
    yield from islice(samples, MAX_SERIES)


def _kinds(pictures: list[Picture]) -> Iterator[Sample]:
    kinds: Counter[tuple[str, str, str]] = Counter()
    for picture in pictures:
        for (status, health), count in picture.kinds.items():
            kinds[picture.run, status, health] += count
    for key, count in sorted(kinds.items()):
        yield m.NCCL_COMMUNICATORS(count, *key)


def _group(run: str, group: Group) -> Iterator[Sample]:
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


def _rank(run: str, name: str, rank: ShownRank) -> Iterator[Sample]:
    key = (run, name, str(rank.rank))
    for op, count in sorted(rank.launched.items()):
        yield m.NCCL_RANK_LAUNCHED(count, *key, op)
        if op in rank.lag:
            yield m.NCCL_RANK_LAG(rank.lag[op], *key, op)
    for state in rank.states:
        yield m.NCCL_RANK_STATE(1, *key, state)
