"""An answer over HTTP has no more seconds and bytes than its asker allows, however it is sent.

A socket's time-out is for one read: who sends a byte a second never meets it, and http.client reads
headers, and urllib3 the lines between chunks, for as long as they come. So what is left of a whole
answer is kept here and looked at where all bytes come in, below HTTP and TLS.
"""

import http.client
import io
import socket
import urllib.request
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any

CHUNK = 1 << 16
PACKED = ("gzip", "x-gzip")
PLAIN = ("", "identity")


class ExceededError(Exception):
    """An answer needs more than was allowed; no OSError, so that nobody asks again for it."""


class TooLateError(ExceededError):
    """It is not whole in time."""


class TooLargeError(ExceededError):
    """It has more bytes."""


class EncodingError(ValueError):
    """It is packed as nobody asked for, or wrongly."""


class Allowance:
    """What is left for an answer.

    Args:
        seconds: From now on, for connecting, redirects and tries together.
        most: Bytes that come in, headers included, and those that a packed body has once unpacked.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self.most = most
        self._due = monotonic() + seconds
        self._left = most

    def seconds(self) -> float:
        """What is left, above 0.

        Raises:
            TooLateError: Nothing is.
        """
        left = self._due - monotonic()
        if left <= 0:
            raise TooLateError("it is not whole in time")
        return left

    def spend(self, size: int) -> None:
        """Bytes came in, or out of a packed body.

        Raises:
            TooLargeError: They are too many.
        """
        self._left -= size
        if self._left < 0:
            raise TooLargeError(f"it has more than {self.most} bytes")


_NOW: ContextVar[Allowance] = ContextVar("allowance of the answer that this thread waits for")


@contextmanager
def allowed(allowance: Allowance) -> Iterator[None]:
    """Whatever this thread asks meanwhile through a BoundedMixin has so much, all together."""
    before = _NOW.set(allowance)
    try:
        yield
    finally:
        _NOW.reset(before)


class BoundedMixin:
    """Before http.client.HTTPConnection, or a class made of it: its answers keep to `allowed`."""

    sock: Any
    timeout: Any

    def connect(self) -> None:
        """As the class behind, in the time that is left."""
        left = _NOW.get().seconds()
        given = self.timeout
        if not isinstance(given, int | float) or given > left:
            self.timeout = left
        super().connect()  # type: ignore[misc]
        self.timeout = given
        self.sock = _Socket(self.sock)

    def _tunnel(self) -> None:
        """Ask a proxy for the way through; TLS needs the socket itself afterwards."""
        under, self.sock = self.sock, _Socket(self.sock)
        super()._tunnel()  # type: ignore[misc]
        self.sock = under


class _Socket:
    """A socket whose file spends the allowance; in all else that socket."""

    def __init__(self, under: socket.socket) -> None:
        self._under = under

    def __getattr__(self, name: str) -> Any:
        return getattr(self._under, name)

    def sendall(self, data: bytes) -> None:
        """Whole, in the time that is left."""
        self._under.settimeout(_NOW.get().seconds())
        try:
            self._under.sendall(data)
        except TimeoutError:
            raise TooLateError("it takes no request in time") from None

    def makefile(self, *_: object) -> io.BufferedReader:
        """What http.client reads from: it asks for `rb` only."""
        return io.BufferedReader(_Raw(self._under, self._under.makefile("rb", 0)))


class _Raw(io.RawIOBase):
    def __init__(self, under: socket.socket, raw: Any) -> None:
        self._under = under
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        allowance = _NOW.get()
        self._under.settimeout(allowance.seconds())
        try:
            count = self._raw.readinto(buffer)
        except TimeoutError:
            raise TooLateError("it is not whole in time") from None
        allowance.spend(count or 0)
        return count or 0

    def close(self) -> None:
        self._raw.close()
        super().close()


class BoundedHTTPConnection(BoundedMixin, http.client.HTTPConnection):
    """HTTP of the standard library, bounded."""


class BoundedHTTPSConnection(BoundedMixin, http.client.HTTPSConnection):
    """HTTPS of the standard library, bounded."""


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(BoundedHTTPConnection, req)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(BoundedHTTPSConnection, req)


def get(
    url: str,
    seconds: float,
    most: int,
    headers: Mapping[str, str] | None = None,
    *,
    proxies: bool = True,
) -> bytes:
    """The body of a 200, redirects followed, to http:// and https:// only.

    Args:
        url: http:// or https://.
        seconds: For everything.
        most: Bytes of everything.
        headers: To send.
        proxies: Whether those of the environment count.

    Raises:
        ExceededError: It takes more.
        OSError: urllib.error.HTTPError for another status, URLError (of any other scheme, too), or
            the network's.
        http.client.HTTPException: The answer is no HTTP, or ends early.
    """
    # build_opener would add ftp, file and data, which have no bounds.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(None if proxies else {}),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Handler(),
        _SecureHandler(),
    ):
        opener.add_handler(handler)
    request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310 - as asked
    with (
        allowed(Allowance(seconds, most)),
        opener.open(request, timeout=seconds) as answer,
    ):
        body = b"".join(iter(lambda: answer.read(CHUNK), b""))
        if answer.length:  # a read of a part does not complain about half a body
            raise http.client.IncompleteRead(body, answer.length)
        return body


def unpacked(parts: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """A body as it was before it was packed; what it grows by is spent, too.

    Args:
        parts: As they came.
        encoding: The header Content-Encoding.

    Raises:
        EncodingError: It is packed otherwise than with gzip, or wrongly.
        TooLargeError: It is larger than allowed.
    """
    word = encoding.strip().lower()
    if word in PLAIN:
        yield from parts
        return
    if word not in PACKED:
        raise EncodingError(f"its Content-Encoding is {encoding[:40]!r}; only gzip was asked for")
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        for part in parts:
            rest = part
            while not stream.eof:
                piece = stream.decompress(rest, CHUNK)
                _NOW.get().spend(len(piece))
                yield piece
                rest = stream.unconsumed_tail
                if not rest and len(piece) < CHUNK:
                    break
    except zlib.error as error:
        raise EncodingError("it is no whole gzip") from error
    if not stream.eof:
        raise EncodingError("it is no whole gzip")
