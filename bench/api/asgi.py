"""One request to the ASGI application, whoever serves it: each has an event loop of its own.

https://asgi.readthedocs.io/en/latest/specs/www.html
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from lockstep.bench.api.door import App, Message

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


def answer(app: App, question: Question, body: Callable[[], bytes]) -> Answer:
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
