"""Times of the links between nodes, measured over the run's own connections (gloo)."""

from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist

from lockstep.workloads.comm import Comm
from lockstep.workloads.probe.pairs import Pair, Round
from lockstep.workloads.probe.times import LinkTimes, Timing
from lockstep.workloads.spec import Layout

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
    all ranks' tables, as workloads/clock_exchange.py does. So all ranks count the same operations.

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
            pair: LinkTimes(*(Timing(*one) for one in row))
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
    return sum(one <= FLOOR * min(times) for one in times) >= FLOOR_REPETITIONS
