"""The API: which question has which answer. What it is made of stands in the files beside it."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from threading import BoundedSemaphore
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from lockstep.bench.api import lines as posted
from lockstep.bench.api import shapes
from lockstep.bench.api.access import Bearer, Door
from lockstep.bench.api.forms import JSON, PARQUET, ZIP, dumped
from lockstep.bench.api.lines import Wish
from lockstep.bench.api.reading import Reading, info, iso, packed, when
from lockstep.bench.api.shapes import PostMetrics, Refusal, StartRun, State, absent
from lockstep.bench.api.starting import WALL, Entry, Starting, delete
from lockstep.collector.contract import threads
from lockstep.dashboard.shapes import RunRow, Span
from lockstep.workloads.sdk.client.calls import PREFIX

LOG = logging.getLogger(__name__)

MOST_RUNS = 1000
MOST_NAMES = 64
"""Metrics that are named in one question."""
AT_ONCE = 2
"""Answers with samples that are made at a time: each may hold some hundred megabytes."""
ABOUT = (
    "Runs, metrics, verdicts and findings. Every refusal is"
    ' `{"error": WORD, "reason": SENTENCE, "field": NAME}`.'
)
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": shapes.Refused, "description": words}
    for status, words in {
        400: "the body is no JSON", 401: "the token is missing or wrong",
        404: "there is no such thing", 409: "not now, or not with what there is",
        413: "too much at once", 422: "a value is not what it must be",
    }.items()
}  # fmt: skip

Name = Annotated[str, Path(description="Id of a run.", min_length=1, max_length=128)]
Metric = Annotated[
    list[str],
    Query(description="Name of a metric; again for more; none = all.", max_length=MOST_NAMES),
]
Whole = Annotated[int | None, Query(ge=0, lt=2**31)]


def application(reading: Reading, bearer: Bearer, starting: Starting | None = None) -> Door:
    """The API behind its door.

    Args:
        reading: What is told.
        bearer: Who may ask.
        starting: What starts, stops and deletes; None = there is only reading, as beside watch.
    """
    return Door(routes(reading, starting), bearer)


def routes(reading: Reading, starting: Starting | None) -> FastAPI:
    """Every route with its answers; docs/reference/api.md is made from it."""
    app = FastAPI(
        title="Lockstep", version=version("lockstep-monitor"), description=ABOUT,
        docs_url=None, redoc_url=None,  # they would fetch scripts from elsewhere
        redirect_slashes=False,
    )  # fmt: skip
    router = APIRouter(
        prefix=PREFIX, responses=REFUSALS, dependencies=[Depends(HTTPBearer(auto_error=False))]
    )
    _read(router, reading, starting)
    if starting is not None:
        _act(router, reading, starting)
    app.include_router(router)
    app.add_api_route("/healthz", _healthy, summary="Whether it serves")
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _failed)
    return app


def _read(router: APIRouter, reading: Reading, starting: Starting | None) -> None:
    """What changes nothing."""
    room = BoundedSemaphore(AT_ONCE)

    def begun(name: str) -> None:
        _begun(reading, starting, name)

    def runs(
        state: Annotated[State | None, Query(description="Those in this state.")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_RUNS, description="The newest so many.")] = 100,
    ) -> Response:
        """Runs, the newest first."""
        found = [told for told in _all(reading, starting) if state in (None, told["state"])]
        return _json({"runs": found[:limit]})

    def run(name: Name) -> Response:
        """A run; of one that failed: who, where, why, and what was said last."""
        return _json(_detail(reading, starting, name))

    def series(name: Name) -> Response:
        """Which series a run has, without their samples."""
        begun(name)
        with room:
            return _json(reading.series(name))

    def metrics(
        name: Name,
        metric: Metric = [],  # noqa: B006 - FastAPI never changes it
        rank: Whole = None,
        node: Annotated[str | None, Query(max_length=253)] = None,
        since: Annotated[str | None, Query(max_length=40, description="Unix seconds, or ISO"
                                           " 8601.")] = None,
        until: Annotated[str | None, Query(max_length=40, description="Likewise.")] = None,
        last_n: Annotated[int | None, Query(ge=1, lt=2**31, description="Of each series the newest"
                                            " so many samples.")] = None,
        summarize: Annotated[int | None, Query(ge=1, le=100_000, description="Of each series so"
                             " many windows; every sample is in exactly one, the last sample in"
                             " the last.")] = None,
        form: Annotated[Literal["json", "parquet", "zip"], Query(alias="format")] = "json",
    ) -> Response:  # fmt: skip
        """Series of a run: of its scrapes, its steps, and what was posted."""
        begun(name)
        wish = Wish(
            tuple(metric), rank, node, when("since", since, -math.inf),
            when("until", until, math.inf), last_n, summarize,
        )  # fmt: skip
        with room:
            kind, body = packed(form, name, *reading.metrics(name, wish))
        return Response(body, media_type=kind)

    def verdict(name: Name) -> Response:
        """The verdict of a run (docs/reference/verdict.md)."""
        begun(name)
        return _json(reading.verdict(name))

    def results(name: Name) -> Response:
        """What a run found out beside its steps: evaluations, goal, throughput, sweep."""
        begun(name)
        return _json(reading.results(name))

    def findings(name: Name) -> Response:
        """What is wrong with a run, where and since when."""
        begun(name)
        return _json({"findings": reading.findings(name)})

    def all_findings() -> Response:
        """What is wrong with any run, the newest first."""
        return _json({"findings": reading.findings()})

    def bench_results(
        bench: Annotated[str, Query(max_length=128, description="Name; empty = all.")] = "",
    ) -> Response:
        """Rows of `lockstep bench`, with every column of its table."""
        return _json({"results": reading.bench_results(bench)})

    one = "/runs/{name}"
    _route(router, "GET", "/runs", runs, shapes.Runs)
    _route(router, "GET", one, run, shapes.RunDetail)
    _route(router, "GET", f"{one}/series", series, shapes.SeriesNames)
    _route(router, "GET", f"{one}/metrics", metrics, shapes.Metrics, (PARQUET, ZIP))
    _route(router, "GET", f"{one}/verdict", verdict, dict[str, Any])
    _route(router, "GET", f"{one}/results", results, dict[str, Any])
    _route(router, "GET", f"{one}/findings", findings, shapes.Findings)
    _route(router, "GET", "/findings", all_findings, shapes.Findings)
    _route(router, "GET", "/results", bench_results, shapes.BenchResults)


def _act(router: APIRouter, reading: Reading, starting: Starting) -> None:
    """What starts, stops, adds or deletes: of `lockstep api` alone."""

    def capacity() -> Response:
        """What this machine runs, what goes on, and what waits."""
        return _json(starting.capacity())

    def start(settings: StartRun) -> Response:
        """Start a run, or queue it behind the one that goes on."""
        there = frozenset(each.run for each in reading.runs())
        entry = starting.start(settings, there | _folders(reading))
        told = _detail(reading, starting, entry.name)
        headers = {"Location": f"{PREFIX}/runs/{entry.name}"}
        return _json(told, HTTPStatus.CREATED, headers)

    def stop(name: Name) -> Response:
        """Ask a run to close its archive and end; one that is over stays as it is."""
        if starting.stop(name) is None:
            row = reading.run(name)
            raise Refusal(
                HTTPStatus.CONFLICT, "not_ours",
                f"the run {name} was not started by this server; it is {row.state}",
            )  # fmt: skip
        return _json(_detail(reading, starting, name), HTTPStatus.ACCEPTED)

    def log(name: Name) -> Response:
        """The end of what a run says, while it goes on and afterwards."""
        said = starting.log(name)
        if said is None:
            reading.run(name)
            raise absent(
                "no_log", f"the run {name} was not started by this server; its archive has logs"
            )
        return _json({"run": name, "lines": said})

    def remove(name: Name) -> Response:
        """Remove a run that is over, with its archive."""
        delete(reading, starting, name)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    def post(name: Name, sent: PostMetrics) -> Response:
        """Add samples of a program to a run: all are taken, or none."""
        at = WALL()
        _begun(reading, starting, name)
        posted.append(
            reading.archive(name),
            [(each.metric, each.node or "", each.rank, at if each.time is None else each.time,
              each.value) for each in sent.samples],
        )  # fmt: skip
        return _json({"taken": len(sent.samples)}, HTTPStatus.CREATED)

    one = "/runs/{name}"
    _route(router, "GET", "/capacity", capacity, shapes.Capacity)
    _route(router, "POST", "/runs", start, shapes.RunDetail, status=HTTPStatus.CREATED)
    _route(router, "POST", f"{one}/stop", stop, shapes.RunDetail, status=HTTPStatus.ACCEPTED)
    _route(router, "GET", f"{one}/log", log, shapes.Log)
    _route(router, "DELETE", one, remove, None, status=HTTPStatus.NO_CONTENT)
    _route(router, "POST", f"{one}/metrics", post, shapes.Taken, status=HTTPStatus.CREATED)


def _route(
    router: APIRouter, method: str, path: str, answer: Callable[..., Response], shape: Any,
    others: Sequence[str] = (), status: HTTPStatus = HTTPStatus.OK,
) -> None:  # fmt: skip
    """A route; OpenAPI tells its shape, a test holds it: answers are written as they are."""
    content = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in others}
    told: dict[int | str, dict[str, Any]] = {}
    if shape is not None:
        told = {int(status): {"model": shape, "content": content}}
    router.add_api_route(
        path, answer, methods=[method], status_code=int(status), responses=told,
        response_class=Response, summary=(answer.__doc__ or "").strip(),
        operation_id=f"{method.lower()}-{answer.__name__.replace('_', '-')}",
    )  # fmt: skip


def _begun(reading: Reading, starting: Starting | None, name: str) -> None:
    """Of a run that was asked for here there is something to read.

    Raises:
        Refusal: There is no archive of it yet, or it left none.
    """
    entry = None if starting is None else starting.entry(name)
    if entry is not None and name not in {each.run for each in reading.runs()}:
        which = "" if entry.over.is_set() else " yet"
        raise absent("no_archive", f"the run {name} is {entry.state()}, and has no archive{which}")


def _all(reading: Reading, starting: Starting | None) -> list[dict[str, Any]]:
    """Runs that were asked for here, and those that have an archive alone; the newest first."""
    rows = {each.run: each for each in reading.runs()}
    mine = () if starting is None else starting.entries()
    found = [_of_entry(each, rows.pop(each.name, None)) for each in mine]
    found += [info(each) for each in rows.values()]
    waiting = [each for each in found if each["started"] is None]
    begun = [each for each in found if each["started"] is not None]
    return waiting + sorted(begun, key=lambda each: str(each["started"]), reverse=True)


def _detail(reading: Reading, starting: Starting | None, name: str) -> dict[str, Any]:
    entry = None if starting is None else starting.entry(name)
    if entry is None:
        return reading.detail(name)
    row: RunRow | None = None
    told: dict[str, Any] = {"failure": None}
    try:
        row, told = reading.run(name), reading.detail(name)
    except Refusal as refusal:
        if refusal.error != "unknown_run":
            raise
    mine, seen = entry.failure(), told["failure"]
    return {
        **_of_entry(entry, row), "command": entry.plan.command,
        # Who failed is told by the archive; that its time was over, by us alone.
        "failure": None if mine is None else (seen if seen and not entry.late else mine),
    }  # fmt: skip


def _of_entry(entry: Entry, row: RunRow | None) -> dict[str, Any]:
    """A run that was asked for here: its state is ours to tell, its verdict its archive's."""
    state, asked = entry.state(), entry.asked
    if row is None:
        begun = entry.begun if entry.begun is not None else math.nan
        row = RunRow(entry.name, state, Span(begun, begun), asked.workload, asked.nodes,
                     asked.nodes * asked.ranks_per_node)  # fmt: skip
    elif state == "failed" and row.state == "hung":
        state = "hung"
    told = info(row, entry.behind or None)
    ended = entry.ended if entry.over.is_set() else None
    return {**told, "state": state, "ended": iso(ended) if told["started"] else None}


def _folders(reading: Reading) -> frozenset[str]:
    """Names that a new archive cannot have."""
    folder = reading.folder
    return frozenset(each.name for each in folder.iterdir()) if folder.is_dir() else frozenset()


def _json(
    tree: Any, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(dumped(tree), int(status), headers=headers, media_type=JSON)


def _healthy() -> Response:
    why = threads.unhealthy()
    if why:
        return _json({"healthy": False, "reason": why}, HTTPStatus.SERVICE_UNAVAILABLE)
    return _json({"healthy": True})


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _json(error.tree(), error.status)


async def _invalid(_: Request, error: Exception) -> Response:
    """The first thing that is wrong, without what was sent."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    kind, place = str(first["type"]), [str(each) for each in first["loc"]]
    if kind == "json_invalid":
        return _json(
            Refusal(HTTPStatus.BAD_REQUEST, "not_json", "the body is no JSON").tree(),
            HTTPStatus.BAD_REQUEST,
        )
    field = _field(place[1:])
    words = {
        "missing": f"{field or 'a JSON body'} is needed",
        "extra_forbidden": f"there is no setting {field}",
    }
    reason = words.get(kind) or f"{field or 'the body'} is wrong: {_plainly(first)}"
    word = {"missing": "missing", "extra_forbidden": "unknown_field"}.get(kind, "bad_value")
    refusal = Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, word, reason, field)
    return _json(refusal.tree(), refusal.status)


def _plainly(error: Mapping[str, Any]) -> str:
    """Pydantic's words as one of our sentences."""
    said = str(error["msg"]).removeprefix("Input ").removeprefix("Value error, ")
    if error["type"] == "string_pattern_mismatch":
        return f"{said}, that is: {shapes.NAMING}" if shapes.NAME in said else said
    return said.replace("should be", "it must be", 1)


def _field(path: Sequence[str]) -> str:
    """`samples[3].value`."""
    words = "".join(f"[{each}]" if each.isdecimal() else f".{each}" for each in path)
    return words.removeprefix(".")[:120]


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reasons = {
        404: "there is no such path; /openapi.json lists them",
        405: f"this path has no {request.method[:20]}; /openapi.json says what it has",
    }
    words = {400: "not_json", 404: "no_such_path", 405: "no_such_method"}
    refusal = Refusal(
        HTTPStatus(error.status_code), words.get(error.status_code, "refused"),
        reasons.get(error.status_code, "the request cannot be read"),
    )  # fmt: skip
    return _json(refusal.tree(), refusal.status, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    LOG.error("the answer to %s failed; this is a bug", request.url.path[:200], exc_info=error)
    told = {"error": "internal", "reason": "the answer failed; the log says why", "field": None}
    return _json(told, HTTPStatus.INTERNAL_SERVER_ERROR)
