"""What the ranks of this node did, from their rings, and how long they were held back."""

import math
from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import (
    CPU_THROTTLED,
    MAX_SERIES_PER_RANK,
    RANK_RUN_QUEUE,
    RANK_THROTTLED,
    Metric,
    Sample,
)
from lockstep.collector.contract.ring import Exchange
from lockstep.collector.contract.words import GROUPS, PHASES, Means
from lockstep.collector.sources.host.cgroup import Throttled
from lockstep.collector.sources.host.cgroup_tree import NodeThrottled
from lockstep.collector.sources.host.schedstat import RunQueued
from lockstep.collector.sources.ranks.header import AHEAD_NS, Group, Identity, Live
from lockstep.collector.sources.ranks.owners import Rank
from lockstep.collector.sources.ranks.source import RingReading

RESERVED = 4
"""Series that others or only some moments give: throttling, run queue, allocation, open op."""
GIVE_WAY = (m.RANK_EXCHANGE_INFO, m.TRAIN_FLOPS, m.TRAIN_SAMPLES, m.TRAIN_LOSS, m.TRAIN_ROUND_TRIP)
"""What a rank that uses all six groups does without: the tokens and its log tell as much, and the
node's counters most of what a link is slow by. Such a rank tells its place itself."""
LEAST_SHARE = 0.01
"""Of the bytes that a rank exchanges, from which a group counts: by a norm or a loss that all ranks
of a pipeline reduce they are no replicas."""


def collect_ranks(reading: RingReading) -> Iterator[Sample]:
    """At most MAX_SERIES_PER_RANK samples a rank, those of other collectors included.

    A rank that is gone keeps `lockstep_rank_up 0`, its topology, its state and its last sequences.
    """
    for state, count in reading.states.items():
        yield m.RINGS(count, state)
    for rank in reading.ranks:
        who = rank.header.identity
        key = (who.run, str(who.rank))
        groups = _groups(rank.header.live)
        yield _info(who, key, rank.header.tags)
        yield m.RANK_UP(int(rank.up), *key)
        for group in groups:
            yield m.TRAIN_ENQUEUED(group.enqueued, *key, group.name)
            yield m.TRAIN_COMPLETED(group.completed, *key, group.name)
        if rank.up:
            living = list(_living(rank, groups, key, reading.monotonic_ns))
            excess = len(living) - (MAX_SERIES_PER_RANK - RESERVED - 2 - 2 * len(groups))
            exported = {sample.metric for sample in living}
            gone = [metric for metric in GIVE_WAY if metric in exported][: max(0, excess)]
            yield from (sample for sample in living if sample.metric not in gone)
            yield from _open_operation(rank.header.live, key, reading.monotonic_ns)
            yield from _values(rank.header.live, key, max(0, -excess))
        else:
            yield m.RANK_LAST_STATE(1, *key, rank.header.state)


def _living(
    rank: Rank, groups: tuple[Group, ...], key: tuple[str, str], now_ns: int
) -> Iterator[Sample]:
    """What only a living rank shows."""
    yield from _age(m.TRAIN_HEARTBEAT_AGE, rank.header.heartbeat_ns, now_ns, *key)
    if rank.header.round_trip_ns > 0:
        yield m.TRAIN_ROUND_TRIP(rank.header.round_trip_ns / 1e9, *key)
    live = rank.header.live
    if live is None:
        return
    yield from _age(m.TRAIN_PROGRESS_AGE, live.progress_ns, now_ns, *key)
    yield m.TRAIN_STEPS(live.steps, *key)
    for phase, nanoseconds in zip(PHASES, live.phase_ns, strict=True):
        yield m.TRAIN_PHASE(nanoseconds / 1e9, *key, phase)
    yield m.TRAIN_OWN(live.own_ns / 1e9, *key)
    yield m.TRAIN_KNOWN_STEPS(live.known_steps, *key)
    yield m.TRAIN_CPU(live.cpu_ns / 1e9, *key)
    for group in groups:
        yield m.TRAIN_COLLECTIVE(group.collective_ns / 1e9, *key, group.name)
        yield m.TRAIN_COLLECTIVES(group.collectives, *key, group.name)
    yield m.TRAIN_SAMPLES(live.samples, *key)
    yield m.TRAIN_TOKENS(live.tokens, *key)
    if not math.isnan(live.loss):
        yield m.TRAIN_LOSS(live.loss, *key)
    yield m.TRAIN_FLOPS(live.flops, *key)
    if live.exchange is not None and not live.exchange.left_out:
        yield _exchange(live.exchange, key)


def _exchange(exchange: Exchange, key: tuple[str, str]) -> Sample:
    every = sum(partner.bytes for partner in exchange.groups) + sum(
        partner.bytes for partner in exchange.peers
    )
    groups = {
        f"{group.members:012x}:{group.size}"
        for group in exchange.groups
        if group.size > 1 and (group.unseen or group.bytes >= LEAST_SHARE * every)
    }
    peers = map(str, sorted(peer.rank for peer in exchange.peers))
    averages = "true" if exchange.plain == exchange.total else "false"
    return m.RANK_EXCHANGE_INFO(1, *key, ",".join(sorted(groups)), ",".join(peers), averages)


def _values(live: Live | None, key: tuple[str, str], room: int) -> Iterator[Sample]:
    """What the program says of itself, as far as a rank's other series leave room."""
    values = () if live is None else live.values
    known = [(name, value) for name, value in values if math.isfinite(value)]
    yield from (m.TRAIN_VALUE(value, *key, name) for name, value in known[:room])


def _open_operation(live: Live | None, key: tuple[str, str], now_ns: int) -> Iterator[Sample]:
    if live is not None and live.open is not None:
        inside = live.open
        yield from _age(m.TRAIN_OPEN_OP_AGE, inside.since_ns, now_ns, *key, inside.op, inside.group)


def _groups(live: Live | None) -> tuple[Group, ...]:
    """Groups of the contract that the rank has used."""
    if live is None:
        return ()
    return tuple(group for group in live.groups if group.enqueued > 0 and group.name in GROUPS)


def _info(who: Identity, key: tuple[str, str], tags: tuple[str, ...]) -> Sample:
    gpu = "" if who.gpu is None else str(who.gpu)
    steps_by = next((means.name.lower() for means in Means if means in tags[:1]), "")
    numbers = (who.attempt, who.local_rank, who.world, who.dp, who.pp, who.tp, who.ep, who.cp)
    place = who.uuid or "", who.node, str(who.pid)
    return m.RANK_INFO(1, *key, *map(str, numbers), gpu, *place, steps_by)


def _age(metric: Metric, since_ns: int, now_ns: int, *labels: str) -> Iterator[Sample]:
    """Seconds since; none of a time that lies ahead of our clock, which is not the rank's then.

    The rank may have moved on a little between our clock reading and its record.
    """
    if since_ns <= now_ns + AHEAD_NS:
        yield metric(max(0, now_ns - since_ns) / 1e9, *labels)


def collect_run_queue(reading: RunQueued) -> Iterator[Sample]:
    """One sample a living rank."""
    for rank, seconds in reading.seconds:
        yield RANK_RUN_QUEUE(seconds, rank.run, str(rank.rank))


def collect_rank_throttling(reading: Throttled) -> Iterator[Sample]:
    """One sample a rank whose cgroup keeps the count."""
    for rank, seconds in reading.seconds:
        yield RANK_THROTTLED(seconds, rank.run, str(rank.rank))


def collect_node_throttling(reading: NodeThrottled) -> Iterator[Sample]:
    """One sample for all groups of the node."""
    yield CPU_THROTTLED(reading.seconds)
