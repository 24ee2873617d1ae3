"""The clocks of the nodes against rank 0's, measured through the run's own connections.

Rank 0 and the first rank of every other node exchange messages as NTP does (RFC 5905, section 8)
and keep the exchange with the shortest round trip: its offset is wrong by at most half of it. All
ranks get the table and write their offset into their rings (contract/ring.IDENTITY). Ranks of one
node share its monotonic clock.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic_ns

import torch
import torch.distributed as dist

from lockstep.workloads.measure.process import UNKNOWN_CLOCK, monotonic_clock
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.recording import WARMUP_STEPS
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.spec import Layout

MAX_DRIFT = 200e-6
"""Seconds that two clocks can gain on each other in a second: IEEE 802.3 allows each 100 ppm."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What to add to a clock for another one, as it was at one moment.

    Attributes:
        at_ns: When, on the first of the two clocks.
        offset_ns: The other clock minus this one.
        error_ns: The offset is not further from the truth than this; at least 1.
    """

    at_ns: int
    offset_ns: int
    error_ns: int


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset, and what it is at most away from the truth; nanoseconds."""

    offset_ns: int
    error_ns: int


def offset_now(
    measurements: Sequence[Measurement], now_ns: int, drift: float = MAX_DRIFT
) -> Offset:
    """The offset at a time not before the last measurement.

    Of two estimates the one with the smaller bound: the last measurement, held while the clocks
    drift apart by at most `drift`, and the line through all of them.

    Args:
        measurements: At least one, in order of time.
        now_ns: On the clock of `at_ns`.
        drift: Seconds in a second; 0 if both are one clock.
    """
    last = measurements[-1]
    ahead = now_ns - last.at_ns
    # Differences from the last one: a double cannot hold the nanoseconds of a clock itself.
    times = [float(measurement.at_ns - last.at_ns) for measurement in measurements]
    held = last.error_ns + drift * ahead
    shares = _shares(
        times, [float(measurement.error_ns) for measurement in measurements], float(ahead)
    )
    if shares is not None:
        bound = sum(abs(s) * one.error_ns for s, one in zip(shares, measurements, strict=True))
        if bound < held:
            moved = sum(
                share * (one.offset_ns - last.offset_ns)
                for share, one in zip(shares, measurements, strict=True)
            )
            return Offset(last.offset_ns + round(moved), round(bound) + 1)
    return Offset(last.offset_ns, round(held) + 1)


def _shares(times: list[float], errors: list[float], at: float) -> list[float] | None:
    """Each measurement's share in the weighted least-squares line's value at a time.

    The line is linear in what was measured, and its shares give 1 for a constant and `at` for the
    times themselves. So where the true offset is a line, the value is wrong by at most the sum of
    |share| x error. None where all times are equal.
    """
    weights = [error**-2 for error in errors]
    total = sum(weights)
    mean = sum(w * t for w, t in zip(weights, times, strict=True)) / total
    spread = sum(w * (t - mean) ** 2 for w, t in zip(weights, times, strict=True))
    if spread <= 0.0:
        return None
    return [
        w / total + (at - mean) * w * (t - mean) / spread
        for w, t in zip(weights, times, strict=True)
    ]


EXCHANGES = 60
SECOND_STEP = 2 * WARMUP_STEPS
"""The second measurement is so many steps after the first: then steps have their usual pace."""
PERIOD_SECONDS = 60.0
FIRST_PERIOD_SECONDS = 5.0
"""Each period is as long as all before it, from this one on up to the full one: the drift is soon
known, and never carried much further than it was seen."""
LEAST_RATIO = 200.0
"""A period is at least so many times as long as a measurement takes: it costs 0.5 % at most."""
ENTRY = 4
"""Numbers of a node in the table."""
KEPT = 16
"""Measurements that the line goes through: clocks drift evenly for minutes, not for hours."""
RENEW_NS = 1_000_000_000

Exchange = Callable[[], tuple[int, int, int, int]]
"""One exchange: sent here, received there, sent back there, received here; nanoseconds."""


def best_of(exchange: Exchange, count: int = EXCHANGES) -> Measurement:
    """Here minus there from the exchange with the shortest round trip, at its end on our clock."""
    best: tuple[int, int, int] | None = None
    for _ in range(count):
        sent, received, answered, back = exchange()
        trip = max(0, (back - sent) - (answered - received))
        if best is None or trip < best[0]:
            best = trip, ((sent - received) + (back - answered)) // 2, back
    assert best is not None
    trip, offset, at = best
    return Measurement(at, offset, trip // 2 + 1)


class Clocks:
    """This rank's clock against the run's, which is rank 0's wall clock; written to its ring."""

    def __init__(self, comm: Comm, layout: Layout, rank: int, writer: RingWriter) -> None:
        self._layout, self._rank, self._writer = layout, rank, writer
        self._wall_minus_monotonic_ns = writer.identity.wall_minus_monotonic_ns
        self._place = comm.collective("world-broadcast", "world", "clocks")
        # The step of the next measurement, rank 0's wall minus monotonic clock, and by node:
        # rank 0's monotonic clock minus the node's, its error, when on rank 0's, and which it is.
        self._table = torch.zeros(2 + ENTRY * layout.nodes, dtype=torch.int64)
        self._drift = MAX_DRIFT
        self._next: int | None = None
        self._seen: deque[Measurement] = deque(maxlen=KEPT)
        self._run_wall_minus_monotonic_ns = 0
        self._renew_at = 0
        self._first_ns = self._last_ns = self._last_step = 0

    def before_step(self, step: int) -> None:
        """Measure if it is time, which all ranks know alike, and keep the ring's offset fresh.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        if self._next is None or step == self._next:
            self._measure(step)
        elif self._layout.nodes > 1 and monotonic_ns() >= self._renew_at:
            self._renew()

    def _measure(self, step: int) -> None:
        self._place.run(self._table, lambda: self._exchange(step))
        self._next, self._run_wall_minus_monotonic_ns, *entries = self._table.tolist()
        node = self._rank // self._layout.ranks_per_node
        offset, error, at, which = entries[ENTRY * node : ENTRY * (node + 1)]
        one_clock = which == entries[ENTRY - 1] != UNKNOWN_CLOCK
        self._drift = 0.0 if one_clock else MAX_DRIFT
        self._seen.append(Measurement(at - offset, offset, error))
        self._renew()

    def _renew(self) -> None:
        now = monotonic_ns()
        if self._rank < self._layout.ranks_per_node:
            offset, error = 0, 0  # the node of rank 0 has its clock
        else:
            found = offset_now(self._seen, now, self._drift)
            offset, error = found.offset_ns, found.error_ns
        # The reader adds the offset to monotonic + wall_minus_monotonic_ns of this very ring.
        walls = self._run_wall_minus_monotonic_ns - self._wall_minus_monotonic_ns
        self._writer.clock(offset + walls, error)
        self._renew_at = now + RENEW_NS

    def _exchange(self, step: int) -> None:
        """Every rank's part in a measurement: node by node with rank 0, then its table for all."""
        per_node = self._layout.ranks_per_node
        if self._rank == 0:
            self._measure_nodes(step)
        elif self._rank % per_node == 0:
            _answer()
        dist.broadcast(self._table, 0)

    def _measure_nodes(self, step: int) -> None:
        began = monotonic_ns()
        entries = [0, 0, began, monotonic_clock()]
        which = torch.zeros(1, dtype=torch.int64)
        for node in range(1, self._layout.nodes):
            leader = node * self._layout.ranks_per_node
            measurement = best_of(_asker(leader))
            dist.recv(which, leader)
            entries += [measurement.offset_ns, measurement.error_ns, measurement.at_ns, int(which)]
        following = self._following(step, began, monotonic_ns())
        self._table.copy_(torch.tensor([following, self._wall_minus_monotonic_ns, *entries]))

    def _following(self, step: int, began: int, ended: int) -> int:
        """The step of the next measurement, from the time that steps have taken so far."""
        if self._next is None:
            self._first_ns, self._last_ns, self._last_step = began, ended, step
            return step + SECOND_STEP
        each = max(1, (began - self._last_ns) // (step - self._last_step))
        period = max(
            min(PERIOD_SECONDS, max(FIRST_PERIOD_SECONDS, (began - self._first_ns) / 1e9)),
            LEAST_RATIO * (ended - began) / 1e9,
        )
        self._last_ns, self._last_step = ended, step
        return step + max(1, round(period * 1e9 / each))


def _asker(peer: int) -> Exchange:
    """Rank 0's side: each call is one exchange with a peer."""
    question, answer = torch.zeros(1, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    times = answer.numpy()

    def exchange() -> tuple[int, int, int, int]:
        sent = monotonic_ns()
        dist.send(question, peer)
        dist.recv(answer, peer)
        return sent, int(times[0]), int(times[1]), monotonic_ns()

    return exchange


def _answer() -> None:
    """The other side of EXCHANGES calls of `_asker(...)`, and which clock it was."""
    question, answer = torch.zeros(1, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    times = answer.numpy()
    for _ in range(EXCHANGES):
        dist.recv(question, 0)
        times[0] = monotonic_ns()
        times[1] = monotonic_ns()
        dist.send(answer, 0)
    dist.send(torch.tensor([monotonic_clock()]), 0)
