"""The API over HTTP and HTTPS: its ASGI application behind the bounded server of all pages."""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote

from lockstep.bench.api.access import MOST_BYTES, App, Door, Message, too_large
from lockstep.bench.api.forms import JSON, dumped
from lockstep.bench.api.shapes import Refusal
from lockstep.collector.config import Address
from lockstep.collector.exporter import bounded_server as bounded
from lockstep.collector.exporter.bounded_server import BoundedHandler, BoundedServer
from lockstep.collector.exporter.web_auth import WebAuth
from lockstep.collector.exporter.web_config import TlsConfig

# One request to the ASGI application, whoever serves it: each has an event loop of its own.
#
# https://asgi.readthedocs.io/en/latest/specs/www.html

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Question:
    """A request without its body.

    Attributes:
        target: Path and query as they came.
        headers: Names in lower case.
    """

    method: str
    target: str
    headers: Sequence[Header] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: tuple[Header, ...]
    body: bytes

    def header(self, name: bytes) -> str:
        """The first of that name; empty = there is none."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")


def respond(app: App, question: Question, body: Callable[[], bytes]) -> Answer:
    """What the application says; `body` is called if it wants the body, and at most once.

    Raises:
        Exception: The application, or `body` inside it, failed before it answered.
    """
    path, _, query = question.target.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "method": question.method, "scheme": "http", "path": unquote(path),
        "raw_path": path.encode("latin-1", "replace"), "root_path": "",
        "query_string": query.encode("latin-1", "replace"), "headers": list(question.headers),
        "client": None, "server": None,
    }  # fmt: skip
    status = 0
    headers: tuple[Header, ...] = ()
    parts: list[bytes] = []
    wanted = True

    async def receive() -> Message:
        nonlocal wanted
        if not wanted:
            return {"type": "http.disconnect"}
        wanted = False
        return {"type": "http.request", "body": body(), "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = tuple((name.lower(), value) for name, value in message.get("headers", ()))
        else:
            parts.append(message.get("body", b""))

    async def ask() -> None:
        await app(scope, receive, send)

    try:
        asyncio.run(ask())
    except Exception:
        if not status:
            raise  # else the application answered that it failed, and logged why
    return Answer(status, headers, b"".join(parts))


LARGE_BYTES = 1 << 20
"""An answer of so many bytes is one of the few that may wait for slow clients (places.py)."""
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
"""Size of a part of a body and what may follow it: RFC 9112, section 7.1."""
_LINE_BYTES = 256


class Server(BoundedServer):
    """Listens from construction on; serves from `start` to `stop`.

    Args:
        app: Behind its door.
        address: Where to listen.
        certificate, key: PEM files of TLS; None = plain HTTP.

    Raises:
        OSError: The address cannot be listened on.
        ConfigError: A file of TLS is none; the message names it.
    """

    def __init__(
        self, app: Door, address: Address, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        self.app = app
        tls = None if certificate is None or key is None else TlsConfig(certificate, key)
        super().__init__(address, _Handler, WebAuth(tls=tls))


class _Handler(BoundedHandler):
    server: Server

    def handle_expect_100(self) -> bool:
        """Who waits for a word before he sends a body is given it once somebody wants the body."""
        return True

    def _answer(self) -> None:
        chunked = self.announced is None and self._is_chunked()
        if self.announced is None and not chunked:
            self._refuse(_malformed("its headers do not say how long its body is"))
            return
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in self.headers.items()
        ]
        question = Question(self.command, self.path, headers)
        answer = respond(self.server.app, question, lambda: self._body(chunked))
        if answer.header(b"connection").lower() == "close":
            self.close_connection = True
        self._send(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer  # noqa: N815

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request, in the form of every refusal."""
        status = HTTPStatus(code)
        reason = f"the request cannot be read: {message or status.phrase}"
        self._refuse(Refusal(status, "refused", reason))

    def _is_chunked(self) -> bool:
        """Whether the body comes in parts, and the head says nothing else: RFC 9112, section 6."""
        codings = self.headers.get_all("Transfer-Encoding", [])
        alone = not self.headers.defects and "Content-Length" not in self.headers
        return alone and self.request_version != "HTTP/1.0" and (
            [coding.strip().lower() for coding in codings] == ["chunked"]
        )  # fmt: skip

    def _body(self, chunked: bool) -> bytes:
        """The body.

        Raises:
            Refusal: It is too large, too slow, or not whole.
        """
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(HTTPStatus.CONTINUE)
            self.end_headers()
        if not chunked and not self.announced:
            return b""  # without a pause in which the connection might be closed for another
        length = self.announced or 0
        try:
            body = self._chunked() if chunked else self.body(length)
        except bounded.HeadTooLongError:
            raise too_large() from None
        except TimeoutError:
            raise Refusal(
                HTTPStatus.REQUEST_TIMEOUT,
                "too_slow",
                f"the body was not whole in {bounded.HEAD_SECONDS:g} s",
            ) from None
        if not chunked and len(body) < length:
            raise Refusal(HTTPStatus.BAD_REQUEST, "cut_off", "the request was cut off")
        return body

    def _chunked(self) -> bytes:
        with self.receiving(MOST_BYTES + (MOST_BYTES >> 2)):
            return b"".join(self._parts())

    def _parts(self) -> Iterator[bytes]:
        size = 0
        while True:
            line = self.rfile.readline(_LINE_BYTES)
            if (found := _CHUNK.fullmatch(line)) is None:
                raise _malformed("a part of its body has no size")
            length = int(found[1], 16)
            if not length:
                return  # what follows is not read: the connection ends with the answer
            size += length
            if size > MOST_BYTES:
                raise too_large()
            yield (part := self.rfile.read(length))
            if len(part) < length or self.rfile.readline(2).strip(b"\r\n"):
                raise _malformed("a part of its body is not of the size it says")

    def _refuse(self, refusal: Refusal) -> None:
        self.close_connection = True
        headers = ((b"content-type", JSON.encode()),)
        self._send(Answer(int(refusal.status), headers, dumped(refusal.tree())))

    def _send(self, answer: Answer) -> None:
        if len(answer.body) > LARGE_BYTES:
            self.server.places.large(self.place)
        status = HTTPStatus(answer.status)
        self.send_response_only(status)
        self.send_header("date", self.date_time_string())
        for name, value in answer.headers:
            if name not in (b"content-length", b"connection", b"date"):
                self.send_header(name.decode("latin-1"), value.decode("latin-1"))
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("content-length", str(len(answer.body)))
        if self.close_connection:
            self.send_header("connection", "close")
        with contextlib.suppress(OSError):
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)


def _malformed(why: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, "refused", f"the request cannot be read: {why}")
