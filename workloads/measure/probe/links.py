"""Times of the links between nodes, measured over the run's own connections (gloo)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist

from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.spec import Layout

# The schedule of a probe: rounds of slots of pairs of nodes.
#
# In a slot every node has one partner at most, so that nothing but the link itself and its two ends
# decides how long a pair takes. A round is some slots and one agreement of all ranks. To see every
# link takes nodes - 1 slots (Kirkman's round-robin, the circle method), in whatever rounds: 4 pairs
# at a time cannot see the 28 links of 8 nodes in fewer than 7. All-to-alls inside halves that share
# a bit of the node's number need as many rounds, but (nodes / 2 - 1) · log2(nodes) exchanges of
# each node, and its link is shared by them.

Pair = tuple[int, int]
"""Two nodes, the lower first."""
Slot = tuple[Pair, ...]
Round = tuple[Slot, ...]


def round_count(nodes: int) -> int:
    """ceil(log2(nodes)), and at least 1: the rounds in which every link is seen once."""
    return max(1, (nodes - 1).bit_length())


def matchings(nodes: int) -> tuple[Slot, ...]:
    """Every pair once; in each slot every node once, but for one that is idle if they are odd."""
    even = nodes + nodes % 2
    slots: list[Slot] = []
    for turn in range(even - 1):
        circle = [even - 1, *((turn + position) % (even - 1) for position in range(even - 1))]
        pairs = zip(circle[: even // 2], reversed(circle[even // 2 :]), strict=True)
        slots.append(tuple(sorted(_pair(*ends) for ends in pairs if max(ends) < nodes)))
    return tuple(slots)


@cache
def covering(nodes: int) -> tuple[Round, ...]:
    """Every link once, in `round_count` rounds of about as many slots."""
    slots, rounds = matchings(nodes), round_count(nodes)
    edges = [len(slots) * index // rounds for index in range(rounds + 1)]
    return tuple(slots[begin:end] for begin, end in pairwise(edges))


def packed(pairs: Iterable[Pair]) -> Round:
    """Some links as a round, each in the first slot that has both its ends free."""
    slots: list[list[Pair]] = []
    for pair in sorted(pairs):
        for slot in slots:
            if not _shares_a_node(pair, slot):
                slot.append(pair)
                break
        else:
            slots.append([pair])
    return tuple(tuple(slot) for slot in slots)


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def _shares_a_node(pair: Pair, slot: Sequence[Pair]) -> bool:
    return any(node in taken for taken in slot for node in pair)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of some repetitions of one transfer.

    Attributes:
        least: The link's own time: what a process that is not scheduled adds is not in it.
        median: How far it is above `least` is how much else decides on this machine.
    """

    least: float
    median: float

    @property
    def spread(self) -> float:
        """Seconds that the machine adds to half of the repetitions."""
        return self.median - self.least


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """One link.

    Attributes:
        latency: Half a round trip of a small message.
        there: A large message from the lower node to the higher, and a small answer.
        back: The same from the higher node to the lower.
    """

    latency: Timing
    there: Timing
    back: Timing

    @property
    def transfer(self) -> Timing:
        """The slower direction."""
        return max(self.there, self.back, key=lambda one: one.least)


History = Sequence[Mapping[Pair, LinkTimes]]
"""What each round so far measured."""


def fastest(history: History) -> dict[Pair, LinkTimes]:
    """Of each link the fastest timings of all rounds."""
    times: dict[Pair, LinkTimes] = {}
    for measured in history:
        for pair, now in measured.items():
            known = times.get(pair, now)
            times[pair] = LinkTimes(
                _faster(known.latency, now.latency),
                _faster(known.there, now.there),
                _faster(known.back, now.back),
            )
    return times


def _faster(one: Timing, other: Timing) -> Timing:
    return one if one.least <= other.least else other


SMALL_BYTES = 8
LARGE_BYTES = 1 << 20
"""Some milliseconds at 1 Gbit/s, a fraction of one on a loopback."""
SMALL_REPETITIONS = 60
LARGE_REPETITIONS = 20
FLOOR_REPETITIONS, FLOOR = 5, 1.2
"""The least time is known once so many repetitions took at most FLOOR times it."""
BUDGET_SECONDS = 0.05
"""Of one message size in one direction, once its least time is known: the others wait for it."""
MOST_SECONDS = 1.0
"""The same, known or not."""


def _nothing(_: int) -> None:
    pass


class Links:
    """This rank's part in the rounds. The first rank of each node exchanges; all ranks call.

    A round is one operation of the world's group on every rank: the exchanges, then the sum of
    all ranks' tables, as workloads/measure/clocks.py does. So all ranks count the same operations.

    Args:
        before_sending: Called with the peer's node before each message leaves; tests and
            benchmarks emulate a slow link by it.
    """

    def __init__(
        self, comm: Comm, layout: Layout, rank: int,
        before_sending: Callable[[int], None] = _nothing,
    ) -> None:  # fmt: skip
        self._place = comm.collective("world-all-reduce", "world", "probe.links")
        self._per_node = layout.ranks_per_node
        self._node, local = divmod(rank, layout.ranks_per_node)
        self._takes_part = local == 0
        self._before_sending = before_sending
        self._small = torch.zeros(SMALL_BYTES, dtype=torch.uint8)
        self._large = torch.zeros(LARGE_BYTES, dtype=torch.uint8)

    def measure(self, slots: Round) -> Mapping[Pair, LinkTimes]:
        """The times of a round's links, the same on every rank.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        pairs = [pair for slot in slots for pair in slot]
        # Latency, there, back, each least and median. The lower end measures all but the last.
        table = torch.zeros(len(pairs), 3, 2, dtype=torch.float64)
        self._place.run(table, lambda: self._exchange(pairs, table))
        return {
            pair: LinkTimes(*(Timing(*values) for values in row))
            for pair, row in zip(pairs, table.tolist(), strict=True)
        }

    def _exchange(self, pairs: list[Pair], table: torch.Tensor) -> None:
        for row, (low, high) in zip(table, pairs, strict=True):
            if not self._takes_part or self._node not in (low, high):
                continue
            if self._node == low:
                row[0] = self._ask(high, self._small, SMALL_REPETITIONS) / 2  # a round trip
                row[1] = self._ask(high, self._large, LARGE_REPETITIONS)
                self._answer(high, self._large)
            else:
                self._answer(low, self._small)
                self._answer(low, self._large)
                row[2] = self._ask(low, self._large, LARGE_REPETITIONS)
        dist.all_reduce(table)

    def _ask(self, peer: int, message: torch.Tensor, repetitions: int) -> torch.Tensor:
        """Least and median seconds from a message to its answer.

        The first byte of the message says whether more follow.
        """
        rank, began = peer * self._per_node, perf_counter()
        times: list[float] = []
        more = True
        while more:
            sent = perf_counter()
            budget = BUDGET_SECONDS if _is_known(times) else MOST_SECONDS
            more = len(times) + 1 < repetitions and sent - began < budget
            message[0] = more
            self._before_sending(peer)
            dist.send(message, rank)
            dist.recv(self._small, rank)
            times.append(perf_counter() - sent)
        return torch.tensor([min(times), median(times)], dtype=torch.float64)

    def _answer(self, peer: int, message: torch.Tensor) -> None:
        """The other side of `_ask` of that message."""
        rank, more = peer * self._per_node, True
        while more:
            dist.recv(message, rank)
            more = bool(message[0])
            self._before_sending(peer)
            dist.send(self._small, rank)


def _is_known(times: list[float]) -> bool:
    """Whether the least of them is the link's, and not what was left of a busy machine."""
    return sum(time <= FLOOR * min(times) for time in times) >= FLOOR_REPETITIONS
