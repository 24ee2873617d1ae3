"""The pages of `lockstep watch` over HTTP: an explicit tuple of routes, on a bounded server."""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from urllib.parse import urlsplit

from lockstep.collector.config import Address, is_loopback
from lockstep.collector.exporter.bounded_server import BoundedHandler, BoundedServer
from lockstep.terminal.output import bug

TEXT = "text/plain; charset=utf-8"
HEADERS = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}
"""Of every answer: a browser takes it for what it says it is, and no page of others uses it."""


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
Admission = Callable[[str, Message], Reply | None]
"""What a request is answered that is not let in, by its method and headers; None = it is."""


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers a path; handlers are called from many threads.

    Attributes:
        admit: Decides by method and headers, before anything of a body is read.
    """

    method: str
    path: str
    handler: Callable[[Request], Reply]
    admit: Admission | None = None

    def answers(self, path: str) -> bool:
        """Whether it is this path, or, of a route that ends with a slash, one below it."""
        return path == self.path or (self.path.endswith("/") and path.startswith(self.path))


def text(status: HTTPStatus, sentence: str) -> Reply:
    """A reply of one sentence."""
    return status, TEXT, f"{sentence}\n".encode()


class Server:
    """Listens from construction on; serves from `start` to `stop`.

    Args:
        address: Where to listen.
        routes: Who answers what.
        most_bytes: Of a body that is read.
        admit: Decides about every request, before its route does.

    Raises:
        ListenError: The port is in use or the address is not of this machine.
    """

    def __init__(
        self,
        address: Address,
        routes: Sequence[Route],
        most_bytes: int,
        admit: Admission | None = None,
    ) -> None:
        try:
            self._server = _Routes(address, tuple(routes), most_bytes, admit)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {address}: {error.strerror or error};"
                " choose another address with --listen"
            ) from error

    @property
    def address(self) -> Address:
        """The address in use, with the port that was found if 0 was asked for."""
        return self._server.address

    def start(self) -> None:
        """Serve from a thread."""
        self._server.start()

    def stop(self) -> None:
        """Take no more requests."""
        self._server.stop()


class _Routes(BoundedServer):
    def __init__(
        self, address: Address, routes: tuple[Route, ...], most_bytes: int, admit: Admission | None
    ) -> None:
        self.routes = routes
        self.most_bytes = most_bytes
        self.admit = admit
        super().__init__(address, _Handler)


class _Handler(BoundedHandler):
    server: _Routes

    def do_GET(self) -> None:  # noqa: N802 - the base class asks for it by this name
        self._answer()

    def do_DELETE(self) -> None:  # noqa: N802 - likewise
        self._answer()

    def do_POST(self) -> None:  # noqa: N802 - likewise
        self._answer()

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        admissions, route = [self.server.admit], self._route(path)
        if isinstance(route, Route):
            admissions.append(route.admit)
        for admit in admissions:
            if admit is not None and (refusal := admit(self.command, self.headers)) is not None:
                self._send(refusal)
                return
        if not isinstance(route, Route):
            self._send(route)
            return
        told = "Content-Length" in self.headers or self.command != "POST"
        if self.command != "GET" and (self.announced is None or not told):
            self._send(text(HTTPStatus.LENGTH_REQUIRED, "a Content-Length is needed"), last=True)
            return
        length = 0 if self.command == "GET" else self.announced or 0
        wanted = min(length, self.server.most_bytes + 1)
        body = self.body(wanted) if wanted else b""
        if len(body) == wanted:
            self._send(self._made(route, path, query, body))

    def _route(self, path: str) -> Route | Reply:
        here = [route for route in self.server.routes if route.answers(path)]
        chosen = next((route for route in here if route.method == self.command), None)
        if chosen is not None:
            return chosen
        places = ", ".join(dict.fromkeys(route.path for route in self.server.routes))
        status = HTTPStatus.METHOD_NOT_ALLOWED if here else HTTPStatus.NOT_FOUND
        return text(status, f"there are {places}")

    def _made(self, route: Route, path: str, query: str, body: bytes) -> Reply:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            return route.handler(Request(path, query, headers, body))
        except Exception as error:  # noqa: BLE001 - one request must not end the others
            bug(f"the answer to {path!r} failed", error)
            return text(HTTPStatus.INTERNAL_SERVER_ERROR, "the answer failed; the log says why")

    def _send(self, reply: Reply, *, last: bool = False) -> None:
        status, kind, body = reply
        self.close_connection = self.close_connection or last
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, words in HEADERS.items():
                self.send_header(name, words)
            if status is HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", 'Bearer realm="lockstep"')
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)


# Admission: any web page in a browser on this machine may send requests to the loopback. It cannot
# choose the headers `Host`, `Origin` and `Sec-Fetch-Site`, which tell it apart: a name of its own
# that leads to 127.0.0.1 (DNS rebinding) stands in `Host`, its address in `Origin`.

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,255})(?::[0-9]{1,5})?", re.ASCII)
OWN_SITES = frozenset({"same-origin", "none"})
"""Sec-Fetch-Site of what a page of this server, or a person, asked for (W3C Fetch Metadata)."""
JSON = "application/json"


def host_check(listen: Address) -> Admission:
    """Lets in who names us rightly.

    Where only this machine reaches us we are called by one of its names. Elsewhere the names that
    lead to us are not ours to know.

    Args:
        listen: As it was configured.
    """
    own = f"[{listen.host}]" if ":" in listen.host else listen.host
    names = {*LOCAL_NAMES, own.lower()}

    def admit(method: str, headers: Message) -> Reply | None:
        hosts = headers.get_all("Host", [])
        if not hosts and method == "GET":
            return None  # a health check by HTTP/1.0: every browser names whom it asks
        if len(hosts) == 1 and _name(hosts[0]) in names:
            return None
        return text(
            HTTPStatus.MISDIRECTED_REQUEST, f"the Host must be one of {', '.join(sorted(names))}"
        )

    def single(_: str, headers: Message) -> Reply | None:
        if len(headers.get_all("Host", [])) < 2:
            return None
        return text(HTTPStatus.BAD_REQUEST, "there must be one Host")

    return admit if is_loopback(listen.host) else single


def refuse_cross_origin(headers: Message) -> tuple[HTTPStatus, str] | None:
    """Why a POST may be the doing of a page of others: status and sentence; None = it is not.

    JSON is what no page sends to others without asking them first.
    """
    hosts, origins = headers.get_all("Host", []), headers.get_all("Origin", [])
    sites = frozenset(headers.get_all("Sec-Fetch-Site", []))
    if not sites <= OWN_SITES or not all(_same(origin, hosts) for origin in origins):
        return HTTPStatus.FORBIDDEN, "a page of another origin sent this"
    kinds = headers.get_all("Content-Type", [])
    if [kind.partition(";")[0].strip().lower() for kind in kinds] != [JSON]:
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the Content-Type must be {JSON}"
    return None


def _name(host: str) -> str:
    """Of a Host header, without its port; empty where it is none."""
    found = HOST.fullmatch(host)
    return found[1].lower() if found else ""


def _same(origin: str, hosts: Sequence[str]) -> bool:
    """Whether an Origin is that of the Host: `null` is of nobody."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and list(hosts) == [parts.netloc]
