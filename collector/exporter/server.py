"""The pages over HTTP and HTTPS: /metrics, /healthz, /readyz and /ops."""

import contextlib
import errno
import gzip
import logging
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from collector.config import Address
from collector.exporter.negotiation import form_of, wants_gzip
from collector.exporter.ops import OpsQuery, QueryError, UnreadableError
from collector.exporter.page import Form
from collector.exporter.protection import Protection

LOG = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
"""A client that sends or takes nothing for so long is dropped."""
IDLE_SECONDS = 120.0
"""Between two requests, however, it may be silent for so long: scrapes are seconds apart."""
MAX_CONNECTIONS = 64
DRAIN_SECONDS = 2.0
TEXT = "text/plain; charset=utf-8"


class ListenError(OSError):
    """The address cannot be listened on; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Pages:
    """What the server serves; each is called for every request, from many threads.

    Attributes:
        metrics: The page in a format, packed with gzip or not.
        unfit: Why the page is not complete; empty when it is.
        ops: Recorded operations as JSON, or None when there is no such run here.
        legacy: The page under DCGM's names, if it is served.
    """

    metrics: Callable[[Form, bool], bytes]
    unfit: Callable[[], str]
    ops: Callable[[OpsQuery], bytes | None]
    legacy: Callable[[], str] | None = None


class PageServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Listens from construction on; serves from `start` to `stop`.

    Raises:
        ListenError: The port is in use or the address is not of this machine.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: Address, pages: Pages, protection: Protection) -> None:
        self.pages = pages
        self.protection = protection
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._busy = 0
        self._idle = threading.Condition()
        if ":" in address.host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((address.host, address.port), _Handler)
        except OSError as error:
            raise ListenError(_cannot_listen(address, error)) from error
        # It sleeps until a connection comes; `stop` wakes it.
        self._thread = threading.Thread(target=self.serve_forever, args=(3600.0,), daemon=True)

    @property
    def address(self) -> Address:
        """The address in use, with the port that was found if 0 was asked for."""
        return Address(*self.server_address[:2])  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"{self.protection.scheme}://{self.address}/metrics"

    def start(self) -> None:
        """Serve from a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests, finish those under way, close."""
        with contextlib.suppress(OSError):  # who sleeps on it wakes
            self.socket.shutdown(socket.SHUT_RDWR)
        self.shutdown()
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0, DRAIN_SECONDS)
        self.server_close()
        self._thread.join()

    def enter(self) -> None:
        """A request is being answered."""
        with self._idle:
            self._busy += 1

    def leave(self) -> None:
        """It has been answered."""
        with self._idle:
            self._busy -= 1
            self._idle.notify_all()

    def process_request(self, request: Any, client_address: Any) -> None:
        """One thread a connection, up to MAX_CONNECTIONS; more are refused at once."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection, behind TLS when there is TLS."""
        request.settimeout(REQUEST_SECONDS)
        wrapped = self.protection.wrap(request)
        try:
            super().finish_request(wrapped, client_address)
        finally:
            if wrapped is not request:
                self.shutdown_request(wrapped)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error of ours; anything else is logged in full."""
        error = sys.exception()
        if not isinstance(error, OSError):
            LOG.error("request of %s failed; this is a bug", client_address, exc_info=error)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version = "lockstep"
    sys_version = ""
    timeout = REQUEST_SECONDS
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.connection.settimeout(REQUEST_SECONDS)
        self.server.enter()
        try:
            self._route()
        finally:
            self.server.leave()
        self.connection.settimeout(IDLE_SECONDS)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in the base class
        LOG.debug(format, *args)

    def _route(self) -> None:
        path, _, query = self.path.partition("?")
        pages = self.server.pages
        if not self.server.protection.allows(self.headers.get("Authorization")):
            self._text(HTTPStatus.UNAUTHORIZED, "a user and a password are needed")
            return
        match path:
            case "/metrics":
                form, packed = form_of(self.headers.get("Accept", "")), self._gzip()
                self._send(HTTPStatus.OK, form.value, pages.metrics(form, packed), packed)
            case "/metrics/dcgm" if pages.legacy is not None:
                self._packed(HTTPStatus.OK, Form.TEXT.value, pages.legacy().encode())
            case "/healthz":
                self._text(HTTPStatus.OK, "alive")
            case "/readyz" if why := pages.unfit():
                self._text(HTTPStatus.SERVICE_UNAVAILABLE, why)
            case "/readyz":
                self._text(HTTPStatus.OK, "ready")
            case "/ops":
                self._ops(query)
            case _:
                self._text(HTTPStatus.NOT_FOUND, "there are /metrics, /healthz, /readyz and /ops")

    def _ops(self, query: str) -> None:
        try:
            wanted = OpsQuery.parse(query)
        except QueryError as error:
            self._text(HTTPStatus.BAD_REQUEST, str(error))
            return
        try:
            body = self.server.pages.ops(wanted)
        except UnreadableError as error:
            self._text(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
            return
        if body is None:
            self._text(HTTPStatus.NOT_FOUND, "no rank of this run is on this node")
        else:
            self._packed(HTTPStatus.OK, "application/json", body)

    def _text(self, status: HTTPStatus, sentence: str) -> None:
        self._packed(status, TEXT, f"{sentence}\n".encode())

    def _gzip(self) -> bool:
        return wants_gzip(self.headers.get("Accept-Encoding", ""))

    def _packed(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        packed = self._gzip()
        body = gzip.compress(body, compresslevel=1, mtime=0) if packed else body
        self._send(status, content_type, body, packed)

    def _send(self, status: HTTPStatus, content_type: str, body: bytes, packed: bool) -> None:
        head = {
            "Date": self.date_time_string(),
            "Content-Type": content_type,
            "Content-Length": str(len(body)),
            "Vary": "Accept, Accept-Encoding",
        }
        if packed:
            head["Content-Encoding"] = "gzip"
        if status is HTTPStatus.UNAUTHORIZED:
            head |= {"WWW-Authenticate": 'Basic realm="lockstep"', "Connection": "close"}
            self.close_connection = True
        lines = [f"{self.protocol_version} {status.value} {status.phrase}"]
        lines += (f"{name}: {text}" for name, text in head.items())
        # In one call, so that a page that fits leaves in one packet.
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + body)


def _cannot_listen(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {address.port} on {address.host} is in use; choose another with --listen"
    reason = error.strerror or str(error)
    return f"cannot listen on {address}: {reason}; choose another with --listen"
