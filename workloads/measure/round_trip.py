"""How long a round trip of a rank's own connections to other hosts takes, as TCP measures it.

Of a ring of nodes all wait alike for its slowest link, and what a link is slow by need not lose
anything that is counted. But each end measures the time until its data is acknowledged (RFC 6298;
tcp(7), TCP_INFO; the kernel's include/uapi/linux/tcp.h): all connections of the node behind a slow
link take longer, of its neighbours' only those to it.

This runs inside people's training programs: it makes no socket object, whose defaults would change
the descriptors of others, and whatever is missing, nothing is told.
"""

import ctypes
import os
import socket
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from struct import Struct
from typing import NamedTuple

READINGS, ENOUGH = 5, 3
"""The median of so many readings of a peer is told, of some at least: single ones are as long as
what is sent just then. With five it follows within two seconds; on real links of 1.1x single ones
were two to eight times what they had been from one look to the next (measured, 2 runs)."""
KEPT_LOOKS = 60
"""Looks until a reading is old: half a minute, as long as a step and its exchange may take."""
LOOKS_AT_START, LOOKS_PER_SEARCH = 20, 4
"""Connections are made at the start, and seldom later: all are listed at each look, then less."""
MOST = 1024
"""Descriptors that are listed: 5 ms."""
SHARE, LEAST_BYTES = 0.1, 1 << 20
"""Of what the busiest carries between two searches, and at least: with less it is no exchange of
data but a store or a log."""
PEERS_AT_LEAST = 2
"""With one way alone nobody knows which of its two ends it is."""
ESTABLISHED = 1
_BYTES = 256
_STATE, _ROUND_TRIP, _CARRIED = Struct("=B"), Struct("=68xI"), Struct("=120xQQ")
"""tcpi_state; tcpi_rtt, smoothed, in microseconds; tcpi_bytes_acked and tcpi_bytes_received (since
Linux 4.1)."""
_FAMILY = Struct("=H")
_ADDRESSES = {socket.AF_INET: slice(4, 8), socket.AF_INET6: slice(8, 24)}
"""Where sockaddr_in and sockaddr_in6 have the host."""


class _Connection(NamedTuple):
    """What a connection tells: bytes that were acknowledged and received, and the round trip."""

    acked: int
    received: int
    round_trip_us: int


class _Peer(NamedTuple):
    """A connection to another host: its address, and how far it was when it was looked at last."""

    host: bytes
    connection: _Connection


class RoundTrips:
    """A heartbeat that tells the least round trip to the hosts that the rank exchanges data with.

    By those connections alone on which something was acknowledged since the last look, for the
    others' estimate is old. The least, because the one way that is well shows that the trouble is
    the other end's.

    Args:
        tell: Takes nanoseconds; 0 = nobody knows.
        descriptors: Of the process that asks (proc(5)).
    """

    def __init__(
        self, tell: Callable[[int], None], descriptors: Path = Path("/proc/self/fd")
    ) -> None:
        self._tell = tell
        self._descriptors = descriptors
        self._ask = _Asking()
        self._carried: dict[int, int] = {}
        self._busy: dict[int, _Peer] = {}
        self._looks = 0
        self._readings: defaultdict[bytes, deque[tuple[int, int]]] = defaultdict(
            lambda: deque(maxlen=READINGS)
        )

    def __call__(self) -> None:
        """Look once."""
        if self._looks < LOOKS_AT_START or self._looks % LOOKS_PER_SEARCH == 0:
            self._search()
        self._looks += 1
        for descriptor, (host, before) in self._busy.items():
            now = self._ask.connection(descriptor)
            if now is not None and now.acked > before.acked:
                self._busy[descriptor] = _Peer(host, now)
                self._readings[host].append((self._looks, now.round_trip_us))
        since = self._looks - KEPT_LOOKS
        fresh = (
            [trip for look, trip in readings if look > since]
            for readings in self._readings.values()
        )
        known = [median(trips) for trips in fresh if len(trips) >= ENOUGH]
        self._tell(int(min(known) * 1000) if len(known) >= PEERS_AT_LEAST else 0)

    def _search(self) -> None:
        """Which connections carry the data, since the last search; without any these stay."""
        try:
            descriptors = sorted(map(int, os.listdir(self._descriptors)))[:MOST]
        except (OSError, ValueError):
            return  # no proc(5) here
        connections = {
            descriptor: now
            for descriptor in descriptors
            if (now := self._ask.connection(descriptor))
        }
        before, self._carried = self._carried, {
            each: now.acked + now.received for each, now in connections.items()
        }  # fmt: skip
        sent = {each: all_of_it - before.get(each, 0) for each, all_of_it in self._carried.items()}
        much = {
            descriptor: host
            for descriptor in connections
            if sent[descriptor] >= LEAST_BYTES and (host := self._ask.other_host(descriptor))
        }
        least = SHARE * max((sent[descriptor] for descriptor in much), default=0)
        if much:
            self._busy = {
                each: self._busy.get(each, _Peer(host, connections[each]))
                for each, host in much.items()
                if sent[each] >= least
            }


class _Asking:
    """getsockopt(2), getpeername(2) and getsockname(2) of descriptors, which may be of anything.

    They are others', who may close them meanwhile.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(_BYTES)
        self._size = ctypes.c_uint32()
        try:
            self._libc = ctypes.CDLL(None)
            self._option: int | None = socket.TCP_INFO
        except (OSError, AttributeError):  # a static program, another system
            self._option = None

    def connection(self, descriptor: int) -> _Connection | None:
        """What an open TCP connection tells; None of all else."""
        if self._option is None:
            return None
        self._size.value = _BYTES
        refused = self._libc.getsockopt(
            descriptor, socket.IPPROTO_TCP, self._option, self._buffer, ctypes.byref(self._size)
        )
        if refused or self._size.value < _CARRIED.size:
            return None
        if _STATE.unpack_from(self._buffer) != (ESTABLISHED,):
            return None
        carried = _CARRIED.unpack_from(self._buffer)
        return _Connection(*carried, *_ROUND_TRIP.unpack_from(self._buffer))

    def other_host(self, descriptor: int) -> bytes | None:
        """The address of the other end; None of a connection inside this host."""
        there = self._host(self._libc.getpeername, descriptor)
        return None if there == self._host(self._libc.getsockname, descriptor) else there

    def _host(self, asked: Callable[..., int], descriptor: int) -> bytes | None:
        self._size.value = _BYTES
        if asked(descriptor, self._buffer, ctypes.byref(self._size)):
            return None
        layout = _ADDRESSES.get(_FAMILY.unpack_from(self._buffer)[0])
        return None if layout is None else self._buffer.raw[layout]
