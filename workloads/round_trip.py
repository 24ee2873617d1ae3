"""How long a round trip of a rank's own connections to other hosts takes, as TCP measures it.

Of a ring of nodes all wait alike for its slowest link, and what a link is slow by need not lose
anything that is counted. But each end measures the time until its data is acknowledged (RFC 6298;
tcp(7), TCP_INFO; the kernel's include/uapi/linux/tcp.h): all connections of the node behind a slow
link take longer, of its neighbours' only those to it.
"""

import ctypes
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from struct import Struct
from typing import NamedTuple

LOOKS = 10
"""The median of so many looks is told, of half of them at least: single ones are as long as what is
sent just then, and the first ones as the start."""
LOOKS_PER_SEARCH = 10
"""Connections come and go seldom, and to list all takes longer than to ask few."""
SHARE = 0.1
"""Of what the busiest carried: with less it is no exchange of data but a store or a log."""
ESTABLISHED = 1
_INFO_BYTES = 256
_STATE, _ROUND_TRIP, _CARRIED = Struct("=B"), Struct("=68xI"), Struct("=120xQQ")
"""tcpi_state; tcpi_rtt, smoothed, in microseconds; tcpi_bytes_acked and tcpi_bytes_received (since
Linux 4.1)."""


class _Told(NamedTuple):
    """What a connection tells: bytes that were acknowledged and received, and the round trip."""

    acked: int
    received: int
    round_trip_us: int


class RoundTrips:
    """A heartbeat that tells the least round trip of the connections that carry the rank's data.

    Of those to other hosts alone, and of those on which something was acknowledged since the last
    look, for the others' estimate is old. The least, because the one way that is well shows that
    the trouble is the other end's.

    Args:
        tell: Takes nanoseconds; 0 = nobody knows.
        descriptors: Of the process that asks (proc(5)).
    """

    def __init__(
        self, tell: Callable[[int], None], descriptors: Path = Path("/proc/self/fd")
    ) -> None:
        self._tell = tell
        self._descriptors = descriptors
        self._ask = _asking()
        self._busy: dict[int, _Told] = {}
        self._looks = 0
        self._least: deque[int] = deque(maxlen=LOOKS)

    def __call__(self) -> None:
        """Look once."""
        if not self._busy or self._looks % LOOKS_PER_SEARCH == 0:
            self._search()
        self._looks += 1
        found = []
        for descriptor, before in self._busy.items():
            now = self._ask(descriptor)
            if now is not None and now.acked > before.acked:
                self._busy[descriptor] = now
                found.append(now.round_trip_us)
        if found:
            self._least.append(min(found))
        elif self._least:
            self._least.popleft()  # what nobody measures any more is soon nobody's
        known = len(self._least) >= LOOKS // 2
        self._tell(int(median(self._least) * 1000) if known else 0)

    def _search(self) -> None:
        """Which connections carry the data, of all so far; what is known of them stays."""
        try:
            descriptors = map(int, os.listdir(self._descriptors))
        except (OSError, ValueError):
            return  # no proc(5) here
        told = {each: now for each in descriptors if (now := self._ask(each)) and any(now[:2])}
        carried = {each: now.acked + now.received for each, now in told.items() if _to_other(each)}
        least = SHARE * max(carried.values(), default=0)
        busy = [each for each, sent in carried.items() if sent >= least]
        self._busy = {each: self._busy.get(each, told[each]) for each in busy}


def _asking() -> Callable[[int], _Told | None]:
    """What asks a descriptor, which need not be a connection's: getsockopt(2).

    The descriptors are others', who may close them meanwhile: no object may own one.
    """
    getsockopt = ctypes.CDLL(None).getsockopt
    info = ctypes.create_string_buffer(_INFO_BYTES)
    size = ctypes.c_uint32()

    def told(descriptor: int) -> _Told | None:
        size.value = _INFO_BYTES
        asked = getsockopt(
            descriptor, socket.IPPROTO_TCP, socket.TCP_INFO, info, ctypes.byref(size)
        )
        if asked or size.value < _CARRIED.size or _STATE.unpack_from(info) != (ESTABLISHED,):
            return None
        return _Told(*_CARRIED.unpack_from(info), *_ROUND_TRIP.unpack_from(info))

    return told


def _to_other(descriptor: int) -> bool:
    """Whether a connection is one with another host."""
    with suppress(OSError):
        connection = socket.socket(fileno=descriptor)
        try:
            return bool(connection.getpeername()[0] != connection.getsockname()[0])
        finally:
            connection.detach()  # it is not ours to close
    return False
