"""The pages over HTTP and HTTPS: /metrics, /healthz, /readyz, /ops, /dumps and /stacks."""

import contextlib
import errno
import gzip
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple, TypeVar

from lockstep.collector.config import Address
from lockstep.collector.exporter.bounded_server import BoundedHandler, BoundedServer
from lockstep.collector.exporter.dumps import DumpsQuery
from lockstep.collector.exporter.ops import OpsQuery, QueryError, UnreadableError
from lockstep.collector.exporter.page import Form
from lockstep.collector.exporter.stacks import ForbiddenError, StacksQuery
from lockstep.collector.exporter.web_auth import WebAuth

_Q = TypeVar("_Q")
TEXT = "text/plain; charset=utf-8"
WAITING_SHARE = 0.25
"""Of all places, so many may wait for a login, and as many for operations: the rest turns over."""
CLIENT_SHARE = 0.25
"""Of those, one client has at most so many."""


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
        dumps: Flight-recorder dumps as JSON, or None when there is no such run here; None
            where that is off.
        stacks: Where ranks stand as JSON, or None when there is no such run here.
    """

    metrics: Callable[[Form, bool], bytes]
    unfit: Callable[[], str]
    ops: Callable[[OpsQuery], bytes | None]
    legacy: Callable[[], str] | None = None
    dumps: Callable[[DumpsQuery], bytes | None] | None = None
    stacks: Callable[[StacksQuery], bytes | None] = lambda _: None


class PageServer(BoundedServer):
    """Serves the pages.

    Raises:
        ListenError: The port is in use or the address is not of this machine.
    """

    def __init__(self, address: Address, pages: Pages, protection: WebAuth) -> None:
        self.pages = pages
        try:
            super().__init__(address, _Handler, protection)
        except OSError as error:
            raise ListenError(_cannot_listen(address, error)) from error
        waiting = max(2, int(self.places.most * WAITING_SHARE))
        a_client = max(2, int(waiting * CLIENT_SHARE))
        self.logins, self.operations = InTurn(waiting, a_client), InTurn(waiting, a_client)
        self.dumps = InTurn(waiting, a_client)  # ranks are waited for: operations go on meanwhile

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"{self.protection.scheme}://{self.address}/metrics"


class _Answer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes
    packed: bool


class _Handler(BoundedHandler):
    server: PageServer

    def do_GET(self) -> None:  # noqa: N802 - the base class asks for it by this name
        path, _, query = self.path.partition("?")
        allowed = self._allowed()
        if allowed is None:
            self._send(self._busy())
        elif allowed:
            self._route(path, query)
        else:
            self._text(HTTPStatus.UNAUTHORIZED, "a user and a password are needed")

    def _allowed(self) -> bool | None:
        """Whether the request may see the pages; None if too many ask to have that found out."""
        words, protection = self.headers.get("Authorization"), self.server.protection
        known = protection.knows(words)
        if known is not None:
            return known
        with self.server.logins.turn(self.place.client) as let_in:
            return protection.allows(words) if let_in else None

    def _busy(self) -> _Answer:
        return self._said(
            HTTPStatus.SERVICE_UNAVAILABLE, "too many ask for what takes long; ask again"
        )

    def _route(self, path: str, query: str) -> None:
        pages = self.server.pages
        match path:
            case "/metrics":
                form, packed = form_of(self.headers.get("Accept", "")), self._gzip()
                self._send(_Answer(HTTPStatus.OK, form.value, pages.metrics(form, packed), packed))
            case "/metrics/dcgm" if pages.legacy is not None:
                page = pages.legacy().encode()
                self._send(self._packed(HTTPStatus.OK, Form.TEXT.value, page))
            case "/healthz":
                self._text(HTTPStatus.OK, "alive")
            case "/readyz" if why := pages.unfit():
                self._text(HTTPStatus.SERVICE_UNAVAILABLE, why)
            case "/readyz":
                self._text(HTTPStatus.OK, "ready")
            case "/ops":
                with self.server.operations.turn(self.place.client) as let_in:
                    answer = self._ops(query) if let_in else self._busy()
                self._send(answer)  # behind the turn: it is as slow as the client takes it
            case "/dumps":
                with self.server.dumps.turn(self.place.client) as let_in:
                    answer = self._dumps(query) if let_in else self._busy()
                self._send(answer)
            case "/stacks":
                with self.server.dumps.turn(self.place.client) as let_in:
                    answer = self._stacks(query) if let_in else self._busy()
                self._send(answer)
            case _:
                there = "there are /metrics, /healthz, /readyz, /ops, /dumps and /stacks"
                self._text(HTTPStatus.NOT_FOUND, there)

    def _ops(self, query: str) -> _Answer:
        return self._asked(query, OpsQuery.parse, self.server.pages.ops)

    def _dumps(self, query: str) -> _Answer:
        if self.server.pages.dumps is None:
            off = "dumps are off here; [collector] dumps = true turns them on"
            return self._said(HTTPStatus.FORBIDDEN, off)
        return self._asked(query, DumpsQuery.parse, self.server.pages.dumps)

    def _stacks(self, query: str) -> _Answer:
        try:
            return self._asked(query, StacksQuery.parse, self.server.pages.stacks)
        except ForbiddenError as error:
            return self._said(HTTPStatus.FORBIDDEN, str(error))

    def _asked(
        self, query: str, parse: Callable[[str], _Q], page: Callable[[_Q], bytes | None]
    ) -> _Answer:
        try:
            wanted = parse(query)
        except QueryError as error:
            return self._said(HTTPStatus.BAD_REQUEST, str(error))
        self.server.places.large(self.place)
        try:
            body = page(wanted)
        except UnreadableError as error:
            return self._said(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        if body is None:
            return self._said(HTTPStatus.NOT_FOUND, "no rank of this run is on this node")
        return self._packed(HTTPStatus.OK, "application/json", body)

    def _text(self, status: HTTPStatus, sentence: str) -> None:
        self._send(self._said(status, sentence))

    def _said(self, status: HTTPStatus, sentence: str) -> _Answer:
        return self._packed(status, TEXT, f"{sentence}\n".encode())

    def _gzip(self) -> bool:
        return wants_gzip(self.headers.get("Accept-Encoding", ""))

    def _packed(self, status: HTTPStatus, content_type: str, body: bytes) -> _Answer:
        packed = self._gzip()
        body = gzip.compress(body, compresslevel=1, mtime=0) if packed else body
        return _Answer(status, content_type, body, packed)

    def _send(self, answer: _Answer) -> None:
        status, content_type, body, packed = answer
        head = {
            "Date": self.date_time_string(),
            "Content-Type": content_type,
            "Content-Length": str(len(body)),
            "Vary": "Accept, Accept-Encoding",
        }
        if packed:
            head["Content-Encoding"] = "gzip"
        if status is HTTPStatus.UNAUTHORIZED:
            head["WWW-Authenticate"] = 'Basic realm="lockstep"'
            self.close_connection = True
        if self.close_connection:
            head["Connection"] = "close"
        lines = [f"{self.protocol_version} {status.value} {status.phrase}"]
        lines += (f"{name}: {text}" for name, text in head.items())
        # In one call, so that a page that fits leaves in one packet.
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + body)


def _cannot_listen(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {address.port} on {address.host} is in use; choose another with --listen"
    reason = error.strerror or str(error)
    return f"cannot listen on {address}: {reason}; choose another with --listen"


_QUALITY = re.compile(r"q=(0(\.[0-9]{0,3})?|1(\.0{0,3})?)")
_TYPES = {"text/plain": Form.TEXT, "application/openmetrics-text": Form.OPENMETRICS}
_HEADERS = 32
"""So many different headers are remembered: a scraper sends the same with each request."""


@lru_cache(_HEADERS)
def form_of(accept: str) -> Form:
    """The format of the page for an Accept header; text unless OpenMetrics is asked for by name."""
    best: dict[Form, float] = {}
    for name, quality in _choices(accept):
        if name in _TYPES:
            form = _TYPES[name]
            best[form] = max(best.get(form, 0.0), quality)
    openmetrics = best.get(Form.OPENMETRICS, 0.0)
    return Form.OPENMETRICS if openmetrics > best.get(Form.TEXT, 0.0) else Form.TEXT


@lru_cache(_HEADERS)
def wants_gzip(accept_encoding: str) -> bool:
    """Whether the answer may be packed with gzip."""
    return any(name == "gzip" and quality > 0 for name, quality in _choices(accept_encoding))


def _choices(header: str) -> list[tuple[str, float]]:
    """(name, quality) of each entry; what has no readable quality has 1."""
    found = []
    for entry in header.split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        quality = next(
            (m[1] for parameter in parameters if (m := _QUALITY.fullmatch(parameter))), "1"
        )
        found.append((name, float(quality)))
    return found


WAIT_SECONDS = 8.0
"""A client whose turn has not come by then is asked to try again: Prometheus waits for 10 s."""


class InTurn:
    """A queue in which a client that asks often waits behind its own requests; for many threads.

    Who finds it full takes the last place of whom has most in it, if that is more than he would
    have.

    Args:
        most: How many may be in it, with the one whose turn it is.
        most_a_client: Likewise, of one client.
        seconds: How long one waits at most.
    """

    def __init__(self, most: int, most_a_client: int, seconds: float = WAIT_SECONDS) -> None:
        self.most = max(1, most)
        self.most_a_client = max(1, min(most, most_a_client))
        self._seconds = seconds
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[object]] = {}
        """By client; whose turn comes next is first."""
        self._held: Counter[str] = Counter()
        self._inside: object | None = None

    @contextlib.contextmanager
    def turn(self, client: str) -> Iterator[bool]:
        """Wait for one's turn and have it in the block; False, and it is not to be begun, if not.

        Args:
            client: Whose request it is.
        """
        let_in = self._enter(client)
        try:
            yield let_in
        finally:
            if let_in:
                self._leave(client)

    def _enter(self, client: str) -> bool:
        mine = object()
        with self._changed:
            if self._held[client] >= self.most_a_client or not self._room(client):
                return False
            self._held[client] += 1
            self._waiting.setdefault(client, deque()).append(mine)
            self._next()
            self._changed.wait_for(lambda: not self._waits(client, mine), self._seconds)
            if self._inside is mine:
                return True
            if self._waits(client, mine):
                self._drop(client, mine)
            return False

    def _leave(self, client: str) -> None:
        with self._changed:
            self._inside = None
            self._held[client] -= 1
            self._held += Counter()  # forgets who has none
            self._next()

    def _waits(self, client: str, turn: object) -> bool:
        return turn in self._waiting.get(client, ())

    def _next(self) -> None:
        """Let the next one in, if nobody is; his client goes to the end."""
        if self._inside is None and self._waiting:
            client = next(iter(self._waiting))
            theirs = self._waiting.pop(client)
            self._inside = theirs.popleft()
            if theirs:
                self._waiting[client] = theirs
            self._changed.notify_all()

    def _room(self, client: str) -> bool:
        if self._held.total() < self.most:
            return True
        greedy = max(self._waiting, key=lambda one: self._held[one], default=client)
        if self._held[greedy] < self._held[client] + 2:
            return False
        self._drop(greedy, self._waiting[greedy][-1])
        return True

    def _drop(self, client: str, turn: object) -> None:
        """Its thread finds out by itself."""
        self._held[client] -= 1
        self._held += Counter()
        self._waiting[client].remove(turn)
        if not self._waiting[client]:
            del self._waiting[client]
        self._changed.notify_all()
