"""Access to the API: the bearer token, and bounds on what is sent."""

import hmac
import os
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

from lockstep.bench.api.forms import JSON, dumped
from lockstep.bench.api.shapes import Refusal
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail, note
from lockstep.workloads.sdk.client.calls import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE

# The bearer token comes from the environment or a file; it is never logged.

FILE = "api-token"
MAX_BYTES = 4096
TOKEN_BYTES = 32


class Bearer:
    """Compares what is given with the token, which is read anew so that it may be renewed.

    Args:
        read: The token; None or an error = nobody can know it, and nobody is let in.
    """

    def __init__(self, read: Callable[[], bytes | None]) -> None:
        self._read = read

    def allows(self, authorization: str) -> bool:
        """Whether a header Authorization has the token; it takes as long whatever was given."""
        token: bytes | None = None
        with suppress(OSError):
            token = self._read()
        scheme, _, given = authorization.partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token or b"")
        return right and bool(token) and scheme.lower() == "bearer"


def bearer(file: Path | None, folder: Path | None) -> Bearer | None:
    """By the first of: a file that was named, the environment, a file that is made in a folder.

    Args:
        file: That was named.
        folder: Where one is made, for its owner only; None = none is made.

    Returns:
        None where no token is known and none is made.

    Raises:
        CommandError: 65, the token cannot be read or is empty; 69, none can be made.
    """
    named = file or _of_environment()
    if named is None and (word := os.environ.get(TOKEN_VARIABLE)) is not None:
        token = word.strip().encode("utf-8", "replace")
        if not token:
            fail(ExitCode.BAD_INPUT, f"{TOKEN_VARIABLE} is empty; it must hold the token")
        return Bearer(lambda: token)
    if named is None and folder is None:
        return None
    path = named if named is not None else _made(folder or Path())
    try:
        empty = read(path) is None
    except OSError as error:
        fail(ExitCode.BAD_INPUT, f"the token's file {path} cannot be read: {error.strerror}")
    if empty:
        fail(ExitCode.BAD_INPUT, f"the token's file {path} is empty or not there")
    return Bearer(lambda: read(path))


def read(path: Path) -> bytes | None:
    """The token in a file; None where there is none.

    Raises:
        OSError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).strip() or None
    except FileNotFoundError:
        return None


def _of_environment() -> Path | None:
    word = os.environ.get(TOKEN_FILE_VARIABLE)
    return Path(word) if word else None


def _made(folder: Path) -> Path:
    path = folder / FILE
    with suppress(OSError):
        if read(path) is not None:
            return path
    new = folder / f".{FILE}.{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            new.unlink()  # of a process of the same number that was killed here
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(handle, "w") as file:
            file.write(f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")
        try:
            os.link(new, path)  # whoever comes second takes the first one's
        except FileExistsError:
            pass
        finally:
            new.unlink()
    except OSError as error:
        fail(
            ExitCode.UNREACHABLE,
            f"{path} cannot be written: {error.strerror}; it would hold the token of the API, or"
            f" set {TOKEN_FILE_VARIABLE}",
        )
    note(f"lockstep: the token of the API is in {path}")
    return path


OPEN = ("/healthz", "/openapi.json")
"""Paths that tell nothing of anybody."""
MOST_BYTES = 4 << 20
"""Of a body: 10,000 samples have two."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"), (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)  # fmt: skip

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Door:
    """ASGI: looks at the token first, then reads the body within bounds, then lets it in."""

    def __init__(self, app: App, bearer: Bearer) -> None:
        self._app, self._bearer = app, bearer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            self._admit(scope)
            body = await _body(scope, receive)
        except Refusal as refusal:
            await _refuse(refusal, guarded)
            return
        await self._app(scope, _again(body, receive), guarded)

    def _admit(self, scope: Scope) -> None:
        if scope["path"] in OPEN and scope["method"] == "GET":
            return
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1 or not self._bearer.allows(given[0].decode("latin-1")):
            raise Refusal(
                HTTPStatus.UNAUTHORIZED, "unauthorized",
                "a bearer token is needed: Authorization: Bearer TOKEN; lockstep api says on its"
                " start where it lies",
            )  # fmt: skip


async def _body(scope: Scope, receive: Receive) -> bytes:
    """All of it; who serves has a limit for its bytes and its time, and raises the refusal."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if length.isdigit() and int(length) > MOST_BYTES:
        raise too_large()
    message = await receive()
    if message["type"] != "http.request":
        raise Refusal(HTTPStatus.BAD_REQUEST, "cut_off", "the request was cut off")
    body: bytes = message.get("body", b"")
    if len(body) > MOST_BYTES:
        raise too_large()
    return body


def too_large() -> Refusal:
    """A body has more bytes than are read."""
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large",
        f"a body has {MOST_BYTES:,} bytes at most; send fewer samples at a time",
    )  # fmt: skip


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, then what comes after it."""
    left = [body]

    async def answer() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return answer


async def _refuse(refusal: Refusal, send: Send) -> None:
    body = dumped(refusal.tree())
    headers = [
        (b"content-type", JSON.encode()), (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]  # fmt: skip
    if refusal.status is HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="lockstep"'))
    start = {"type": "http.response.start", "status": int(refusal.status), "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
