"""An HTTP server that no number of connections silences; of the pages and of `lockstep watch`.

Whoever listens has a list of things that a stranger may do to him before any login: open
connections and say nothing, say it a byte at a time, send headers without end, take no answer. Each
is bounded here: by time (one deadline for a whole head), by bytes, by places (places.py) and by
descriptors. A body that nobody reads is never taken for the next request: its connection ends with
the answer.
"""

import contextlib
import errno
import io
import logging
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from lockstep.collector.config import Address
from lockstep.collector.contract import threads
from lockstep.collector.exporter.connections import Connection, Places, Stage, client_of
from lockstep.collector.exporter.web_auth import WebAuth
from lockstep.collector.files.persistent_fds import share

LOG = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""From its first byte on, a request has so long to be whole: all its lines together."""
ANSWER_SECONDS = 10.0
"""A client that takes nothing of its answer for so long is dropped."""
IDLE_SECONDS = 120.0
"""Between two requests it may be silent for so long: scrapes are seconds apart."""
HEAD_BYTES = 1 << 14
"""Request line and headers; those of Prometheus have 500 bytes."""
MAX_CONNECTIONS = 64
DESCRIPTOR_SHARE = 4
"""Of all descriptors that this process may have, one in so many is for connections."""
UNREAD_SECONDS = 1.0
UNREAD_BYTES = 1 << 20
"""Of a body that nobody reads, so much is thrown away: to close before resets the answer."""
DRAIN_SECONDS = 2.0
PAUSE_SECONDS = 0.05
"""While this machine gives no descriptor for a connection."""
_SHORT_OF = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class HeadTooLongError(Exception):
    """A request's head is longer than HEAD_BYTES."""


class BoundedServer(socketserver.TCPServer):
    """Listens from construction on; serves from `start` to `stop`, a thread a connection.

    Args:
        address: Where to listen; an address with a colon is of IPv6.
        handler: What answers.
        protection: TLS, if there is any.

    Raises:
        OSError: The port is in use or the address is not of this machine.
    """

    allow_reuse_address = True
    request_queue_size = 1024  # who finds it full asks again a second later

    def __init__(
        self,
        address: Address,
        handler: "type[BoundedHandler]",
        protection: WebAuth | None = None,
    ) -> None:
        self.protection = protection or WebAuth()
        self.places = Places(share(DESCRIPTOR_SHARE, MAX_CONNECTIONS))
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        super().__init__((address.host, address.port), handler)
        # It sleeps until a connection comes; `stop` wakes it.
        self._stopped = threading.Event()
        self._thread = threads.loop("http", lambda: self.serve_forever(3600.0), self._stopped)

    @property
    def address(self) -> Address:
        """The address in use, with the port that was found if 0 was asked for."""
        return Address(*self.server_address[:2])  # type: ignore[arg-type]

    def start(self) -> None:
        """Serve from a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests, finish those under way, close."""
        with contextlib.suppress(OSError):  # who sleeps on it wakes
            self.socket.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self.shutdown()
            self._stopped.set()  # now: before it has begun to serve, `shutdown` would wait for ever
            self._thread.join()
        self.places.end(DRAIN_SECONDS)
        self.server_close()

    def get_request(self) -> tuple[Any, Any]:
        """The next connection; where there is no descriptor for it, one in use is given up."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _SHORT_OF:
                self.places.close_one()
                time.sleep(PAUSE_SECONDS)  # the connection still waits: asking at once would spin
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a place and a thread, or refuse it at once."""
        connection = self.places.take(request, client_of(client_address[0]))
        if connection is None:
            self.shutdown_request(request)
            return
        serve = threads.task("request", lambda: self._serve(connection, client_address))
        try:
            serve.start()
        except RuntimeError:  # this machine gives no thread now
            self.places.leave(connection)
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error of ours; anything else is logged in full."""
        error = sys.exception()
        if not isinstance(error, OSError):
            LOG.error("request of %s failed; this is a bug", client_address, exc_info=error)

    def _serve(self, connection: Connection, client_address: Any) -> None:
        """Serve one connection to its end, behind TLS when there is TLS."""
        try:
            connection.socket.settimeout(HEAD_SECONDS)
            self.places.becomes(connection, self.protection.wrap(connection.socket))
            self.protection.shake_hands(connection.socket)
            self.RequestHandlerClass(connection, client_address, self)  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001 - as in the base class
            self.handle_error(connection.socket, client_address)
        finally:
            self.places.leave(connection)
            self.shutdown_request(connection.socket)


class BoundedHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection; a subclass has the methods `do_GET` and so on.

    Attributes:
        announced: Bytes of a body behind the head of this request; None = nobody can say how many.
    """

    server: BoundedServer
    protocol_version = "HTTP/1.1"
    server_version = "lockstep"
    sys_version = ""
    disable_nagle_algorithm = True
    announced: int | None = 0

    def __init__(self, connection: Connection, client_address: Any, server: BoundedServer) -> None:
        self.place = connection
        super().__init__(connection.socket, client_address, server)

    def setup(self) -> None:
        """Read and write within the bounds."""
        super().setup()
        self.rfile.close()  # in place of the base class's, which knows no deadline
        self._input = _Input(self.connection)
        self.rfile = io.BufferedReader(self._input)
        self.wfile = _Output(self.connection, self._sends)

    def handle_one_request(self) -> None:
        """One request, from its first byte to the last of its answer."""
        self._input.expect(IDLE_SECONDS if self._served else HEAD_SECONDS, HEAD_SECONDS, HEAD_BYTES)
        try:
            super().handle_one_request()
        except HeadTooLongError:
            self._refuse_head()
        finally:
            self._served = True
            self.server.places.turn(self.place, Stage.SILENT)

    def parse_request(self) -> bool:
        """Read the head; from here to its answer the connection is not closed for another."""
        self._unread = False
        if super().parse_request() and self.server.places.turn(self.place, Stage.WORKING):
            self.announced = _announced(self.headers)
            self._stays = not self.close_connection
            self._unread = self.announced != 0
            self.close_connection = self.close_connection or self._unread
            return True
        self.close_connection = True
        return False

    def body(self, length: int) -> bytes:
        """So many bytes behind the head, or fewer if the client sends fewer in HEAD_SECONDS.

        While they are waited for, the connection may be closed for another. Once they are all that
        the head announces, the next request may follow.
        """
        with self.receiving(length):
            read = self.rfile.read(length)
            if len(read) == self.announced:
                self._unread, self.close_connection = False, not self._stays
        return read

    @contextlib.contextmanager
    def receiving(self, most: int) -> Iterator[None]:
        """In this block a body may be read from `rfile`: so many bytes, as `body` reads them."""
        self.server.places.turn(self.place, Stage.SILENT)
        self._input.expect(HEAD_SECONDS, HEAD_SECONDS, most)
        yield
        if not self.server.places.turn(self.place, Stage.WORKING):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        """What the base class would print."""
        LOG.debug(format, *args)

    def finish(self) -> None:
        """Let the client have its answer: what it sent beside it is waited for, and thrown away."""
        if self._unread:
            with contextlib.suppress(OSError, HeadTooLongError):
                self.connection.shutdown(socket.SHUT_WR)
                self._input.expect(UNREAD_SECONDS, UNREAD_SECONDS, UNREAD_BYTES)
                buffer = bytearray(1 << 14)
                while self._input.readinto(buffer):
                    pass
        super().finish()

    _served = _unread = False
    _stays = True

    def _sends(self) -> None:
        self.server.places.turn(self.place, Stage.SENDING)

    def _refuse_head(self) -> None:
        self.requestline, self.request_version, self.command = "", self.protocol_version, ""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)


def _announced(headers: Message) -> int | None:
    """Bytes behind a head; None = nobody can say how many.

    RFC 9112, section 6: a length of which there are several, or in another coding, and a head that
    is not understood to its end, are how a body is smuggled past one of two servers.
    """
    lengths = headers.get_all("Content-Length", [])
    if headers.defects or headers.get_payload() or "Transfer-Encoding" in headers:
        return None
    if not lengths:
        return 0
    first = lengths[0].strip()
    plain = len(lengths) == 1 and first.isascii() and first.isdecimal() and len(first) < 20
    return int(first) if plain else None


class _Input(io.RawIOBase):
    """What a client sends, by the deadline for all of it and up to a number of bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._seconds = self._within = 0.0
        self._end: float | None = None
        self._left = 0

    def expect(self, seconds: float, within: float, most: int) -> None:
        """Wait for the next bytes: so long for the first, for all `within`, at most so many."""
        self._seconds, self._within, self._end, self._left = seconds, within, None, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if self._left <= 0:
            raise HeadTooLongError
        left = self._seconds if self._end is None else self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request was not whole in time")
        self._connection.settimeout(left)
        count = self._connection.recv_into(buffer)
        if self._end is None:
            self._end = time.monotonic() + self._within
        self._left -= count
        return count


class _Output(io.BufferedIOBase):
    """What a client is sent, within ANSWER_SECONDS a call."""

    def __init__(self, connection: socket.socket, sends: Callable[[], None]) -> None:
        self._connection = connection
        self._sends = sends

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._sends()
        self._connection.settimeout(ANSWER_SECONDS)
        self._connection.sendall(data)
        return len(data)
