"""The reading half beside another page: the same routes, answered through that page's server."""

from email.message import Message
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path

from lockstep.bench.api.access import Bearer, bearer
from lockstep.terminal.output import note
from lockstep.watch.serve.server import Reply, Request, Route
from lockstep.workloads.sdk.client.calls import PREFIX, TOKEN_FILE_VARIABLE


def routes(folder: Path | None) -> tuple[Route, ...]:
    """Who answers below /api/v1/; none where there are no archives, or no token is known.

    Raises:
        CommandError: 65, the token of the environment cannot be read.
    """
    key = None if folder is None else bearer(None, None)
    if folder is None or key is None:
        return ()
    if find_spec("fastapi") is None:
        note(
            f"lockstep: {TOKEN_FILE_VARIABLE} is set, and this installation lacks the extra api;"
            f" {PREFIX} is not served"
        )
        return ()
    return _routes(folder, key)


def _routes(folder: Path, key: Bearer) -> tuple[Route, ...]:
    from lockstep.bench.api import server as asgi
    from lockstep.bench.api.app import application
    from lockstep.bench.api.reading import Reading

    app = application(Reading(folder), key)

    def answer(method: str, request: Request) -> Reply:
        authorization = request.headers.get("authorization", "").encode("latin-1", "replace")
        question = asgi.Question(
            method, f"{request.path}?{request.query}", [(b"authorization", authorization)]
        )
        said = asgi.respond(app, question, lambda: request.body)
        return HTTPStatus(said.status), said.header(b"content-type"), said.body

    def admit(_: str, headers: Message) -> Reply | None:
        given = headers.get_all("Authorization", [])
        if len(given) == 1 and key.allows(given[0]):
            return None
        refused = {name.lower(): value for name, value in headers.items()} | {"authorization": ""}
        return answer("GET", Request(f"{PREFIX}/runs", "", refused, b""))

    return tuple(
        Route(method, f"{PREFIX}/", lambda request, method=method: answer(method, request), admit)  # type: ignore[misc]
        for method in ("GET", "POST", "DELETE")
    )
