"""The pages of `lockstep watch` over HTTP: an explicit tuple of routes."""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from collector.config import Address
from lockstep.watching.trouble import bug

LOG = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
MAX_CONNECTIONS = 32
TEXT = "text/plain; charset=utf-8"


class ListenError(OSError):
    """The address cannot be listened on; the message says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler is given.

    Attributes:
        path: Without the query.
        query: Behind the question mark.
        headers: Names in lower case.
        body: One byte more than `most_bytes` at most: then it was longer.
    """

    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


Reply = tuple[HTTPStatus, str, bytes]
"""Status, content type, body."""


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers a path; handlers are called from many threads."""

    method: str
    path: str
    handler: Callable[[Request], Reply]


def text(status: HTTPStatus, sentence: str) -> Reply:
    """A reply of one sentence."""
    return status, TEXT, f"{sentence}\n".encode()


class Server:
    """Listens from construction on; serves from `start` to `stop`.

    Args:
        address: Where to listen.
        routes: Who answers what.
        most_bytes: Of a body that is read.

    Raises:
        ListenError: The port is in use or the address is not of this machine.
    """

    def __init__(self, address: Address, routes: Sequence[Route], most_bytes: int) -> None:
        try:
            self._server = _Threads(address, tuple(routes), most_bytes)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {address}: {error.strerror or error};"
                " choose another address with --listen"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def address(self) -> Address:
        """The address in use, with the port that was found if 0 was asked for."""
        return Address(*self._server.server_address[:2])  # type: ignore[arg-type]

    def start(self) -> None:
        """Serve from a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests."""
        if self._thread.ident is not None:
            self._server.shutdown()
        self._server.server_close()


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, address: Address, routes: Sequence[Route], most_bytes: int) -> None:
        self.routes = routes
        self.most_bytes = most_bytes
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        super().__init__((address.host, address.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """One thread a connection, up to MAX_CONNECTIONS; more are refused at once."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error of ours."""
        LOG.debug("a request of %s failed", client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Threads
    protocol_version = "HTTP/1.1"
    server_version = "lockstep"
    sys_version = ""
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._send(text(HTTPStatus.LENGTH_REQUIRED, "a Content-Length is needed"), last=True)
            return
        wanted = min(int(length), self.server.most_bytes + 1)
        body = self.rfile.read(wanted)
        if len(body) == wanted:
            # What is left of a body that is too long would be read as the next request.
            self._answer(body, last=wanted < int(length))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        LOG.debug(format, *args)

    def _answer(self, body: bytes, *, last: bool = False) -> None:
        path, _, query = self.path.partition("?")
        here = [route for route in self.server.routes if route.path == path]
        chosen = next((route for route in here if route.method == self.command), None)
        if chosen is None:
            places = ", ".join(dict.fromkeys(route.path for route in self.server.routes))
            status = HTTPStatus.METHOD_NOT_ALLOWED if here else HTTPStatus.NOT_FOUND
            self._send(text(status, f"there are {places}"), last=last)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            reply = chosen.handler(Request(path, query, headers, body))
        except Exception as error:  # noqa: BLE001 - one request must not end the others
            bug(f"the answer to {path!r} failed", error)
            reply = text(HTTPStatus.INTERNAL_SERVER_ERROR, "the answer failed; the log says why")
        self._send(reply, last=last)

    def _send(self, reply: Reply, *, last: bool = False) -> None:
        status, kind, body = reply
        self.close_connection = self.close_connection or last
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if last:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
