"""In front of the API: who has no token, or sends too much, does not get in."""

from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from lockstep.bench.api.bearer import Bearer
from lockstep.bench.api.forms import JSON, dumped
from lockstep.bench.api.refusal import Refusal

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
