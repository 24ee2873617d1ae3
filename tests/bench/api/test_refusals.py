"""Bad input is answered with 4xx and a reason: the table of what predecessors answered wrongly."""

import json
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra api")

import lockstep
from tests.bench.api.served import Api, served

RUNS = "/api/v1/runs"
JSON = {"Content-Type": "application/json"}
CALLS: list[tuple[str, str, Any, int, str, str]] = [
    # a run that is not there
    ("GET", f"{RUNS}/nope", None, 404, "unknown_run", "there is no run 'nope'; there are made-1"),
    ("DELETE", f"{RUNS}/nope", None, 404, "unknown_run", "made-1"),
    ("POST", f"{RUNS}/nope/stop", None, 404, "unknown_run", "made-1"),
    ("POST", f"{RUNS}/nope/metrics", {"samples": [{"metric": "a", "value": 1}]}, 404,
     "unknown_run", "made-1"),
    *[("GET", f"{RUNS}/nope/{each}", None, 404, "unknown_run", "made-1")
      for each in ("verdict", "results", "findings", "series", "metrics")],
    # settings that are missing, unknown, or of another type
    ("POST", RUNS, None, 422, "missing", "a JSON body is needed"),
    ("POST", RUNS, [], 422, "bad_value", "the body"),
    ("POST", RUNS, {"nods": 4}, 422, "unknown_field", "there is no setting nods"),
    ("POST", RUNS, {"image_name": "nope"}, 422, "unknown_field", "no setting image_name"),
    ("POST", RUNS, {"workload": "chess"}, 422, "bad_value", "must be one of gpt, resnet"),
    ("POST", RUNS, {"model": "huge"}, 422, "bad_value", "must be one of tiny"),
    ("POST", RUNS, {"nodes": "4"}, 422, "bad_value", "nodes is wrong: it must be a valid integer"),
    ("POST", RUNS, {"nodes": True}, 422, "bad_value", "nodes is wrong"),
    ("POST", RUNS, {"analyze": "true"}, 422, "bad_value", "analyze is wrong"),
    ("POST", RUNS, {"faults": ["heat"]}, 422, "bad_value", "unknown kind 'heat'"),
    ("POST", RUNS, {"faults": ["thermal:rank=9"]}, 422, "bad_value", "rank"),
    ("POST", RUNS, {"time_limit_seconds": 0}, 422, "bad_value", "time_limit_seconds"),
    # the rule of names
    ("POST", RUNS, {"name": "A b"}, 422, "bad_value", "small letters, digits and hyphens"),
    ("POST", RUNS, {"name": "../up"}, 422, "bad_value", "small letters, digits and hyphens"),
    ("POST", RUNS, {"name": ""}, 422, "bad_value", "small letters, digits and hyphens"),
    ("POST", RUNS, {"name": "made-1"}, 409, "exists", "there is a run made-1 already"),
    # more than there is, or less than nothing
    ("POST", RUNS, {"nodes": 1000}, 422, "over_capacity", "this machine runs 8 at most"),
    ("POST", RUNS, {"nodes": 3, "ranks_per_node": 3}, 422, "over_capacity", "are 9 ranks"),
    ("POST", RUNS, {"nodes": 10**40}, 422, "over_capacity", "8 at most"),
    ("POST", RUNS, {"nodes": -3}, 422, "bad_value", "nodes must be a whole number from 1 to 8"),
    ("POST", RUNS, {"nodes": 0}, 422, "bad_value", "nodes must be a whole number from 1 to 8"),
    ("POST", RUNS, {"steps": -1}, 422, "bad_value", "steps must be a whole number"),
    ("POST", RUNS, {"dp": 3}, 422, "bad_value", "This cannot be run"),
    # queries
    *[("GET", f"{RUNS}/made-1/metrics?{query}", None, 422, "bad_value", word) for query, word in (
        ("since=yesterday", "since is 'yesterday'"), ("until=nan", "until is 'nan'"),
        ("since=2026-13-45", "it must be unix seconds"), ("last_n=0", "last_n"),
        ("last_n=-5", "last_n"), ("summarize=ten", "summarize"), ("rank=-1", "rank"),
        ("format=xml", "format"), ("since=1e400", "since"))],
    ("GET", f"{RUNS}/made-1/metrics?metric=nope", None, 404, "unknown_metric", "no metric 'nope'"),
    ("GET", f"{RUNS}?limit=0", None, 422, "bad_value", "limit"),
    ("GET", f"{RUNS}?state=odd", None, 422, "bad_value", "state"),
    # what is posted
    *[("POST", f"{RUNS}/made-1/metrics", {"samples": [{"metric": "m", "value": 1}, sample]}, 422,
       "bad_value", word) for sample, word in (
        ({"metric": "m", "value": "abc"}, "samples[1].value"),
        ({"metric": "m", "value": True}, "samples[1].value"),
        ({"metric": "a b", "value": 1}, "samples[1].metric"),
        ({"metric": "", "value": 1}, "samples[1].metric"),
        ({"metric": "m", "value": 1, "time": "soon"}, "samples[1].time"),
        ({"metric": "m", "value": 1, "time": -1}, "samples[1].time"),
        ({"metric": "m", "value": 1, "rank": -1}, "samples[1].rank"))],
    ("POST", f"{RUNS}/made-1/metrics", {"samples": [{"metric": "m"}]}, 422, "missing",
     "samples[0].value is needed"),
    ("POST", f"{RUNS}/made-1/metrics", {"samples": []}, 422, "bad_value", "samples"),
    # other paths and methods, and paths that lead elsewhere
    ("GET", "/api/v1/nope", None, 404, "no_such_path", "/openapi.json"),
    ("PUT", RUNS, {}, 405, "no_such_method", "this path has no PUT"),
    ("DELETE", RUNS, None, 405, "no_such_method", "DELETE"),
    ("GET", f"{RUNS}/..%2f..%2fetc%2fpasswd", None, 404, "no_such_path", "path"),
    ("GET", f"{RUNS}/%2e%2e/verdict", None, 404, "", ""),
    ("DELETE", f"{RUNS}/%00", None, 404, "unknown_run", "made-1"),
    ("DELETE", f"{RUNS}/.api", None, 404, "unknown_run", "made-1"),
    ("POST", f"{RUNS}/made-1/stop", None, 409, "not_ours", "not started by this server"),
]  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One server for all of these: none of them changes anything."""
    with served(tmp_path_factory.mktemp("api") / "runs") as made:
        yield made


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error", "words"), CALLS,
    ids=[f"{method} {path} {json.dumps(body)[:60]}" for method, path, body, *_ in CALLS],
)  # fmt: skip
def test_a_wrong_request_is_told_what_is_wrong(
    shared: Api, method: str, path: str, body: Any, status: int, error: str, words: str
) -> None:
    answer = ask(shared, method, path, body)

    told = answer.json()
    assert answer.status_code == status, told
    assert error in ("", told["error"])
    assert words in told["reason"]
    assert set(told) == {"error", "reason", "field"}
    assert "input_value" not in told["reason"]


def ask(api: Api, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
    raw = None if body is None else json.dumps(body)
    headers: Mapping[str, str] = {**api.headers, **(JSON if body is not None else {})}
    return httpx.request(method, f"{api.url}{path}", content=raw, headers=headers, **more)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"\xff\xfe", b"[" * 100_000, b"NaN", b'{"nodes": NaN}', b'{"nodes": 1e999}',
        b'{"seed": ' + b"9" * 5000 + b"}", b'{"name": "\\ud800"}', b'"gpt"', b"null",
        b'{"samples": [{"metric": "\\ud800", "value": 1}]}', b'{"__proto__": 1}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", [RUNS, f"{RUNS}/made-1/metrics"])
def test_a_body_that_is_none_is_refused(shared: Api, raw: bytes, path: str) -> None:
    answer = httpx.post(f"{shared.url}{path}", content=raw, headers={**shared.headers, **JSON})

    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["reason"]


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer wrong", "Basic YTpi", "Bearer a-token-of"]
)
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", RUNS), ("POST", RUNS), ("DELETE", f"{RUNS}/made-1"), ("GET", "/nowhere"),
     ("POST", f"{RUNS}/made-1/metrics")],
)  # fmt: skip
def test_who_has_no_token_learns_and_does_nothing(
    shared: Api, authorization: str, method: str, path: str
) -> None:
    headers = {"Authorization": authorization} if authorization else {}

    answer = httpx.request(method, f"{shared.url}{path}", headers=headers)

    assert answer.status_code == 401
    assert answer.json()["error"] == "unauthorized"
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert "made-1" not in answer.text
    assert (shared.folder / "made-1").is_dir()


def test_two_tokens_are_none(shared: Api) -> None:
    headers = [("Authorization", shared.headers["Authorization"])] * 2

    assert httpx.get(f"{shared.url}{RUNS}", headers=headers).status_code == 401


def test_a_body_that_is_too_large_is_refused_before_it_is_read(shared: Api) -> None:
    where = urlsplit(shared.url)
    # The length alone: who still sends when the answer comes may find the connection closed.
    asking = HTTPConnection(where.hostname or "", where.port, timeout=60)
    headers = {**shared.headers, **JSON, "Content-Length": str(5 << 20)}
    asking.request("POST", f"{RUNS}/made-1/metrics", headers=headers)
    answer = asking.getresponse()

    assert answer.status == 413
    assert json.loads(answer.read())["error"] == "too_large"
    asking.close()


def test_whether_it_serves_is_no_secret(shared: Api) -> None:
    assert httpx.get(f"{shared.url}/healthz").json() == {"healthy": True}


def test_a_folder_that_holds_something_else_is_no_run(api: Api) -> None:
    (api.folder / "notes").mkdir()
    (api.folder / "notes" / "precious.txt").write_text("keep")
    (api.folder / "link").symlink_to(api.folder / "made-1")

    for name in ("notes", "link"):
        with pytest.raises(lockstep.ApiError, match="there is no run"):
            api.client.delete(name)

    assert (api.folder / "notes" / "precious.txt").read_text() == "keep"


def test_a_torn_archive_is_told_and_takes_no_other(api: Api) -> None:
    torn = api.folder / "torn"
    torn.mkdir()
    (torn / "run.json").write_text('{"schema_version": 1,')

    told = {each["run"]: each for each in api.client.runs()}
    assert "cannot be read" in told["torn"]["sentence"]
    assert told["made-1"]["status"] == "degraded"
    with pytest.raises(lockstep.ApiError) as refused:
        api.client.verdict("torn")
    assert refused.value.status in (404, 409)
    api.client.delete("torn")
    assert not torn.exists()
