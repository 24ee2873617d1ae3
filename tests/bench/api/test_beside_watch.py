"""Watch serves the reading half: the same words, the same answers, and nothing that acts."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra api")

import httpx

import lockstep
from lockstep.collector.config import Address
from lockstep.watch.serve import api as beside
from lockstep.watch.serve.server import Server, host_check
from tests.bench.api.served import TOKEN, Api, served
from tests.dashboard.archives import Made, write

FINDING = {
    "run": "live-1", "alerts": [], "opened": 1_795_000_010.0, "closed": None,
    "sentence": "rank 2 is slow", "key": {"tier": "page", "node": "node-1", "cause": "thermal"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Watch:
    url: str
    out: Path
    client: lockstep.Client


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """With a finding of the run live-1, as watch writes it."""
    out = tmp_path / "findings"
    folder = write(
        out / "live-1" / "20261118T110640Z-node-1", Made(run="live-1", steps=20, slow=2, onset=8)
    )
    (folder / "finding.json").write_text(json.dumps(FINDING))
    monkeypatch.delenv("LOCKSTEP_API_TOKEN_FILE", raising=False)
    monkeypatch.setenv("LOCKSTEP_API_TOKEN", TOKEN)
    where = Address("127.0.0.1", 0)
    server = Server(where, beside.routes(out), 1 << 20, host_check(where))
    server.start()
    url = f"http://{server.address}"
    with lockstep.Client(url, token=TOKEN) as client:
        yield Watch(url, out, client)
    server.stop()


def test_what_watch_found_is_told(watch: Watch) -> None:
    [run] = watch.client.runs()
    assert run["run"] == "live-1"
    assert {"thermal"} == {each["cause"] for each in watch.client.findings("live-1")}
    assert watch.client.verdict("live-1")["run"] == "live-1"
    points = watch.client.metrics("live-1", "own_seconds", rank=2, summarize=4)[0]["points"]
    assert sum(each["count"] for each in points) == 20


def test_it_says_what_the_api_itself_says(watch: Watch, tmp_path: Path) -> None:
    with served(tmp_path / "runs") as api:
        write(watch.out / "made-1", Made(run="made-1", steps=20, slow=2, onset=8, parts=1))
        for path in (
            "runs/made-1", "runs/made-1/verdict", "runs/made-1/findings", "runs/made-1/series",
            "runs/made-1/metrics?metric=loss&last_n=3", "runs/made-1/metrics?since=soon", "results",
            "runs/made-1/metrics?metric=loss&format=parquet", "runs/made-1/results", "nope",
            "runs/made-1/metrics?metric=nope", "runs?state=odd",
        ):  # fmt: skip
            here, there = (_asked(each, path) for each in (watch, api))
            assert here.status_code == there.status_code, path
            assert here.content == there.content, path
            assert here.headers["content-type"] == there.headers["content-type"]


def _asked(place: Watch | Api, path: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.get(f"{place.url}/api/v1/{path}", headers=headers, timeout=30)


def test_nothing_is_started_stopped_added_or_deleted(watch: Watch) -> None:
    for act in (
        lambda: watch.client.start(name="gpt-1"), lambda: watch.client.stop("live-1"),
        lambda: watch.client.delete("live-1"),
        lambda: watch.client.post_metrics("live-1", [{"metric": "m", "value": 1}]),
        watch.client.capacity,
    ):  # fmt: skip
        with pytest.raises(lockstep.ApiError) as refused:
            act()
        assert refused.value.status in (404, 405)
        assert refused.value.error in ("no_such_path", "no_such_method")
    assert (watch.out / "live-1").is_dir()


@pytest.mark.parametrize("token", ["", "Bearer wrong"])
def test_who_has_no_token_sees_nothing(watch: Watch, token: str) -> None:
    headers = {"Authorization": token} if token else {}
    for method in ("GET", "POST", "DELETE"):
        answer = httpx.request(method, f"{watch.url}/api/v1/runs", headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"] == "unauthorized"
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert "live-1" not in answer.text


def test_a_page_of_others_is_not_let_in(watch: Watch) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}

    assert httpx.get(f"{watch.url}/api/v1/runs", headers=headers).status_code == 421


def test_without_a_token_or_archives_it_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_API_TOKEN", TOKEN)
    assert beside.routes(None) == ()
    monkeypatch.delenv("LOCKSTEP_API_TOKEN")
    monkeypatch.delenv("LOCKSTEP_API_TOKEN_FILE", raising=False)
    assert beside.routes(tmp_path) == ()
