"""The words of the API, once: each is a request and what is made of its answer. Pure."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlsplit

from lockstep.collector.contract import bounded_json

# The address of the API and its token: from arguments, else from the environment.

URL_VARIABLE = "LOCKSTEP_API_URL"
TOKEN_VARIABLE = "LOCKSTEP_API_TOKEN"  # noqa: S105 - a name, not a secret
TOKEN_FILE_VARIABLE = "LOCKSTEP_API_TOKEN_FILE"  # noqa: S105 - likewise
PORT = 9412
USUAL_URL = f"http://127.0.0.1:{PORT}"
PREFIX = "/api/v1"
MAX_TOKEN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API.

    Attributes:
        url: Without a slash at its end.
        token: Never shown.
    """

    url: str
    token: str = field(repr=False)

    @property
    def may_be_proxied(self) -> bool:
        """Whether a proxy of the environment may stand between; none that would read the token."""
        host = urlsplit(self.url).hostname or ""
        try:
            here = ip_address(host).is_loopback
        except ValueError:
            here = host == "localhost"
        return self.url.startswith("https://") and not here


def endpoint(
    url: str | None = None,
    token: str | None = None,
    token_file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Endpoint:
    """The API that is meant.

    Args:
        url: By default LOCKSTEP_API_URL, else this machine's.
        token: By default LOCKSTEP_API_TOKEN, or what is in the file.
        token_file: By default LOCKSTEP_API_TOKEN_FILE.
        environment: Instead of the process's own.

    Raises:
        ValueError: The address is none, or no token is known; it says how to give one.
        OSError: The file cannot be read.
    """
    variables = os.environ if environment is None else environment
    where = (url or variables.get(URL_VARIABLE) or USUAL_URL).rstrip("/")
    if not where.startswith(("http://", "https://")) or "@" in where:
        raise ValueError(
            f"{where.rpartition('@')[2]!r} is no address of an API; it must be http://HOST:PORT or"
            " https://HOST:PORT, without a name or password"
        )
    file = token_file or (None if token else variables.get(TOKEN_FILE_VARIABLE))
    if token is None and file:
        with open(file, "rb") as stream:
            token = stream.read(MAX_TOKEN_BYTES).decode("utf-8", "replace").strip()
    word = (token or variables.get(TOKEN_VARIABLE) or "").strip()
    if not word or not word.isascii() or not word.isprintable():
        raise ValueError(
            f"the API needs a token: give token_file, or set {TOKEN_FILE_VARIABLE} or"
            f" {TOKEN_VARIABLE}; `lockstep api` says on its start where it lies"
        )
    return Endpoint(where, word)


T = TypeVar("T")
Tree = dict[str, Any]
Form = Literal["json", "parquet", "zip"]
MAX_BYTES = 512 << 20
"""Of an answer; the largest that the server gives is far smaller."""


class ApiError(Exception):
    """The API refused a request, or cannot be reached; its text is a sentence.

    Attributes:
        status: Of HTTP; 0 = nobody answered.
        error: A word that does not change.
        field: Which parameter or key it is about; empty = none.
    """

    def __init__(self, status: int, error: str, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
        self.field = field


class WaitError(ApiError, TimeoutError):
    """A run was not over in time; it goes on."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request.

    Attributes:
        read: The body of an answer -> what the word returns.
    """

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Tree | None = None


def refused(status: int, body: bytes) -> ApiError:
    """What an answer of 4xx or 5xx says."""
    try:
        tree = bounded_json.loads(body)
        return ApiError(
            status, str(tree["error"]), str(tree["reason"]), str(tree.get("field") or "")
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ApiError(status, "unknown", f"the answer was {status}, without a reason of the API")


def capacity() -> Call[Tree]:
    """As Client.capacity."""
    return Call("GET", f"{PREFIX}/capacity", _tree)


def runs(state: str | None, limit: int | None) -> Call[list[Tree]]:
    """As Client.runs."""
    return Call("GET", f"{PREFIX}/runs", _part("runs"), _given(state=state, limit=limit))


def run(name: str) -> Call[Tree]:
    """As Client.run."""
    return Call("GET", _of(name), _tree)


def start(settings: Mapping[str, Any]) -> Call[Tree]:
    """As Client.start."""
    return Call("POST", f"{PREFIX}/runs", _tree, body=dict(settings))


def stop(name: str) -> Call[Tree]:
    """As Client.stop."""
    return Call("POST", _of(name, "/stop"), _tree)


def log(name: str) -> Call[list[str]]:
    """As Client.log."""
    return Call("GET", _of(name, "/log"), lambda body: [str(line) for line in _tree(body)["lines"]])


def delete(name: str) -> Call[None]:
    """As Client.delete."""
    return Call("DELETE", _of(name), lambda _: None)


def series(name: str) -> Call[list[Tree]]:
    """As Client.series."""
    return Call("GET", _of(name, "/series"), _part("series"))


def metrics(name: str, query: Mapping[str, Any]) -> Call[list[Tree]]:
    """As Client.metrics."""
    return Call("GET", _of(name, "/metrics"), _part("series"), query)


def download(name: str, form: Form, query: Mapping[str, Any]) -> Call[bytes]:
    """As Client.download_metrics."""
    return Call("GET", _of(name, "/metrics"), bytes, {**query, "format": form})


def post_metrics(name: str, samples: Sequence[Mapping[str, Any]]) -> Call[int]:
    """As Client.post_metrics."""
    payload = {"samples": [dict(sample) for sample in samples]}
    return Call("POST", _of(name, "/metrics"), lambda body: int(_tree(body)["taken"]), body=payload)


def verdict(name: str) -> Call[Tree]:
    """As Client.verdict."""
    return Call("GET", _of(name, "/verdict"), _tree)


def results(name: str) -> Call[Tree]:
    """As Client.results."""
    return Call("GET", _of(name, "/results"), _tree)


def bench_results(bench: str | None) -> Call[list[Tree]]:
    """As Client.bench_results."""
    return Call("GET", f"{PREFIX}/results", _part("results"), _given(bench=bench))


def findings(name: str | None) -> Call[list[Tree]]:
    """As Client.findings."""
    path = f"{PREFIX}/findings" if name is None else _of(name, "/findings")
    return Call("GET", path, _part("findings"))


def chosen(
    metric: str | Sequence[str] | None, rank: int | None, node: str | None,
    since: float | str | None, until: float | str | None, last_n: int | None,
    summarize: int | None,
) -> dict[str, Any]:  # fmt: skip
    """The query of metrics, without what was not given."""
    names = [metric] if isinstance(metric, str) else list(metric or ())
    return _given(
        metric=names or None, rank=rank, node=node, since=since, until=until, last_n=last_n,
        summarize=summarize,
    )  # fmt: skip


def _given(**words: Any) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value is not None}


def _of(name: str, more: str = "") -> str:
    return f"{PREFIX}/runs/{quote(name, safe='')}{more}"


def _tree(body: bytes) -> Tree:
    try:
        tree = bounded_json.loads(body, limit=MAX_BYTES)
    except ValueError as error:
        raise ApiError(200, "unknown", f"the answer is no JSON: {error}") from None
    if not isinstance(tree, dict):
        raise ApiError(200, "unknown", "the answer is no JSON object")
    return tree


def _part(name: str) -> Callable[[bytes], list[Tree]]:
    def read(body: bytes) -> list[Tree]:
        part = _tree(body).get(name)
        if not isinstance(part, list):
            raise ApiError(200, "unknown", f"the answer has no list {name}")
        return part

    return read
