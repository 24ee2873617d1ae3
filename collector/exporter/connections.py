"""The connections of a server: how many a client may have, and which is closed for another.

Before a request has been read nobody knows who it is from: a scraper, the kubelet, or one of a
thousand connections that say nothing. So everybody gets in, and who has been silent longest goes.
"""

import contextlib
import ipaddress
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum, auto

LOG = logging.getLogger(__name__)

CLIENT_SHARE = 0.5
"""Of all places, one client has at most so many: what it opens beyond costs it its own."""
LARGE_SHARE = 0.125
"""Of all places, so many may hold a large answer, which costs memory until it has been taken."""
NEW_SECONDS = 0.25
"""Who has just come is closed for another only if all have: a request comes with its connection."""
ROOM_SECONDS = 0.1
"""Who comes while nobody can be closed waits so long at most, and is refused then."""
MAX_LEAVING = 8
"""Connections that were closed and whose threads have not noticed yet."""
TOLD_SECONDS = 60.0
"""Between two lines of the log about connections that were closed to make room."""


class Stage(Enum):
    """What a connection is doing."""

    NEW = auto()
    """It has come, and nothing whole was heard of it yet."""
    SILENT = auto()
    """Nothing whole was heard of it since its last answer."""
    WORKING = auto()
    """An answer is being made."""
    SENDING = auto()
    """It is being sent, as fast as the client takes it."""


class Connection:
    """One connection of a client; changed by `Places` only.

    Attributes:
        client: Whose it is: an address, or a network that one machine may have to itself.
        since: When its stage began, in monotonic seconds.
    """

    __slots__ = ("client", "since", "socket", "stage")

    def __init__(self, connection: socket.socket, client: str, now: float) -> None:
        self.socket = connection
        self.client = client
        self.stage = Stage.NEW
        self.since = now


class Places:
    """The connections of one server; for many threads.

    A connection may be closed for a new one unless its answer is being made. Chosen is the one that
    has said or taken nothing for longest, of the client that has most: a client that floods the
    server loses its own, and where all come from one address (a proxy, NAT) a scraper that has just
    connected is the last to go.

    Args:
        most: Number of places.
    """

    def __init__(self, most: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.most_a_client = max(1, int(most * CLIENT_SHARE))
        self.most_large = max(1, int(most * LARGE_SHARE))
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._here: set[Connection] = set()
        self._leaving: set[Connection] = set()
        self._large: set[Connection] = set()
        self._told = float("-inf")

    def take(self, connection: socket.socket, client: str) -> Connection | None:
        """A place for a connection that has just come; None if there is none to be had."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._room(client), ROOM_SECONDS):
                return None
            taken = Connection(connection, client, self._monotonic())
            self._here.add(taken)
            return taken

    def close_one(self) -> bool:
        """Close the connection that is missed least; whether there was one."""
        with self._changed:
            return self._close_one(self._here)

    def leave(self, connection: Connection) -> None:
        """The connection has ended; to be said before its descriptor is closed."""
        with self._changed:
            self._here.discard(connection)
            self._leaving.discard(connection)
            self._large.discard(connection)
            self._changed.notify_all()

    def becomes(self, connection: Connection, wrapped: socket.socket) -> None:
        """The connection goes on behind TLS."""
        with self._changed:
            connection.socket = wrapped
            if connection not in self._here:
                _shut(wrapped)

    def turn(self, connection: Connection, stage: Stage) -> bool:
        """Say what the connection does now; False if it was closed meanwhile."""
        with self._changed:
            connection.stage, connection.since = stage, self._monotonic()
            if stage is Stage.SILENT:
                self._large.discard(connection)
            self._changed.notify_all()  # who waits for room may close it
            return connection in self._here

    def large(self, connection: Connection) -> None:
        """Say that the answer which is being made is large; it is held until it has been taken.

        Of too many, the one that has been sent for longest is closed, of whom has most places:
        answers are made one after the other, so only those that clients do not take are many.
        """
        with self._changed:
            while len(self._large) >= self.most_large and self._close_one(self._large):
                pass
            self._large.add(connection)

    def end(self, seconds: float) -> None:
        """Let answers under way be finished for so long, and close everything."""
        with self._changed:
            busy = (Stage.WORKING, Stage.SENDING)
            self._changed.wait_for(
                lambda: not any(other.stage in busy for other in self._here), seconds
            )
            for idle in self._here:
                _shut(idle.socket)

    def _room(self, client: str) -> bool:
        """Whether there is a place for one more of the client, closing a connection if need be."""
        if len(self._leaving) >= MAX_LEAVING:
            return False
        mine = [connection for connection in self._here if connection.client == client]
        if len(mine) >= self.most_a_client:
            return self._close_one(mine)
        return len(self._here) < self.most or self._close_one(self._here)

    def _close_one(self, among: Iterable[Connection]) -> bool:
        now = self._monotonic()
        held = Counter(connection.client for connection in self._here)
        closable = [connection for connection in among if connection.stage is not Stage.WORKING]
        if not closable:
            return False

        def missed(connection: Connection) -> tuple[bool, int, float]:
            new = connection.stage is Stage.NEW and now - connection.since < NEW_SECONDS
            return new, -held[connection.client], connection.since

        connection = min(closable, key=missed)
        self._here.discard(connection)
        self._large.discard(connection)
        self._leaving.add(connection)
        _shut(connection.socket)
        if now - self._told >= TOLD_SECONDS:
            self._told = now
            LOG.warning(
                "%d connections are open, %d of them of %s; silent ones are closed to make room",
                len(self._here) + 1, held[connection.client], connection.client,
            )  # fmt: skip
        return True


def client_of(host: str) -> str:
    """Whom an address belongs to: one machine is given a /64 of IPv6, and may use all of it."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


def _shut(connection: socket.socket) -> None:
    """Wake the thread that reads from it or writes to it; the thread closes it."""
    with contextlib.suppress(OSError):  # the client may have gone by itself
        # As a plain socket: TLS would take its own state away from under that thread.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
