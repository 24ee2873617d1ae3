"""Runs that are started over HTTP: queued, followed, stopped, deleted (contracts 15 to 18)."""

import asyncio
import inspect
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra api")

import lockstep
from lockstep.bench import results
from lockstep.bench.api import starting as starting_module
from lockstep.bench.api.shapes import StartRun
from lockstep.dashboard.starting.registry import take
from lockstep.runs.claim import claim_folder
from tests.bench.api.served import TOKEN, Api

PATIENCE = 30.0


def until(api: Api, name: str, state: str) -> None:
    """Waits until a run is in a state."""
    for _ in range(int(PATIENCE / 0.05)):
        if api.client.run(name)["state"] == state:
            return
        threading.Event().wait(0.05)
    raise AssertionError(api.client.run(name))


def test_a_run_is_started_ends_and_is_deleted_and_nothing_of_it_is_left(api: Api) -> None:
    begun = api.client.start(name="gpt-1", workload="gpt", steps=40)
    assert begun["run"] == "gpt-1"
    assert begun["state"] in ("queued", "running")
    assert "--steps 40" in begun["command"]

    over = api.client.wait("gpt-1", PATIENCE)
    assert (over["state"], over["failure"], over["behind"]) == ("ended", None, None)
    assert over["started"] < over["ended"]

    api.client.delete("gpt-1")
    assert "gpt-1" not in {each["run"] for each in api.client.runs()}
    assert [] == [each.name for each in api.folder.rglob("*gpt-1*")]
    with pytest.raises(lockstep.ApiError) as gone:
        api.client.delete("gpt-1")
    assert (gone.value.status, gone.value.error) == (404, "unknown_run")


def test_a_run_waits_behind_the_one_that_goes_on(api: Api) -> None:
    api.client.start(name="wait-1")
    until(api, "wait-1", "running")
    while not (api.folder / "wait-1" / "run.json").exists():  # its program is still being imported
        threading.Event().wait(0.05)
    api.client.start(name="gpt-2")
    api.client.start(name="gpt-3")

    told = {each["run"]: (each["state"], each["behind"]) for each in api.client.runs()}
    assert told["gpt-2"] == ("queued", "wait-1")
    assert told["gpt-3"] == ("queued", "gpt-2")
    assert api.client.capacity()["waiting"] == ["gpt-2", "gpt-3"]
    assert api.client.capacity()["running"] == "wait-1"
    with pytest.raises(lockstep.ApiError, match="stop it first"):
        api.client.delete("wait-1")
    with pytest.raises(lockstep.ApiError, match="gpt-2 is queued, and has no archive yet"):
        api.client.metrics("gpt-2")

    assert api.client.stop("gpt-2")["state"] == "stopped"
    api.client.stop("wait-1")
    stopped = api.client.wait("wait-1", PATIENCE)
    assert stopped["state"] == "stopped"
    assert stopped["failure"]["reason"] == "by a signal"
    assert api.client.wait("gpt-3", PATIENCE)["state"] == "ended"
    never = api.client.run("gpt-2")
    assert never["started"] is None
    assert "before it began" in never["failure"]["reason"]
    api.client.delete("gpt-2")
    assert api.client.stop("gpt-3")["state"] == "ended"  # one that is over stays as it is


def test_who_failed_where_and_what_was_said_last_is_told(api: Api) -> None:
    api.client.start(name="crash-1")

    failed = api.client.wait("crash-1", PATIENCE)

    assert failed["state"] == "failed"
    assert failed["failure"]["ranks"] == [1]
    assert failed["failure"]["reason"] == "rank 1 ended with exit code 1"
    assert failed["failure"]["last_lines"][-1] == "RuntimeError: no memory"


def test_nodes_and_last_lines_of_a_run_of_others_are_told(api: Api) -> None:
    archive = api.folder / "made-1"
    told = json.loads((archive / "run.json").read_text())
    told["outcome"] = {"ending": "crash", "ranks": [2], "reason": "rank 2 ended with exit code 1"}
    (archive / "run.json").write_text(json.dumps(told))
    (archive / "logs").mkdir()
    (archive / "logs" / "rank-2.log").write_text("step 9\nout of memory\n")

    failed = api.client.run("made-1")

    assert failed["state"] == "failed"
    assert (failed["failure"]["ranks"], failed["failure"]["nodes"]) == ([2], ["node-1"])
    assert failed["failure"]["last_lines"] == ["step 9", "out of memory"]
    assert api.client.runs(state="failed")[0]["run"] == "made-1"


def test_a_run_has_the_name_that_it_was_given_and_its_command_without_secrets(api: Api) -> None:
    archive = api.folder / "made-1"
    assert api.client.run("made-1")["name"] is None
    told = json.loads((archive / "run.json").read_text())
    command = "lockstep run --exec --name night -- python train.py --token hunter2-abcdef"
    told |= {"name": "night", "command": command}
    (archive / "run.json").write_text(json.dumps(told))

    for one in (api.client.run("made-1"), *api.client.runs()):
        if one["run"] == "made-1":
            assert one["name"] == "night"
            assert "--name night -- python train.py" in one["command"]
            assert "hunter2" not in one["command"]


def test_a_run_without_an_archive_fails_with_its_last_words(api: Api) -> None:
    api.client.start(name="fail-1")

    failed = api.client.wait("fail-1", PATIENCE)

    assert failed["state"] == "failed"
    assert failed["failure"]["reason"] == "lockstep: shared memory is full"
    api.client.delete("fail-1")
    with pytest.raises(lockstep.ApiError, match="there is no run 'fail-1'"):
        api.client.run("fail-1")


def test_a_run_that_takes_too_long_has_failed(api: Api) -> None:
    api.client.start(name="wait-1", time_limit_seconds=1)

    late = api.client.wait("wait-1", PATIENCE)

    assert late["state"] == "failed"
    assert "not over after 1 s" in late["failure"]["reason"]


def test_a_run_that_waits_too_long_has_failed(api: Api) -> None:
    api.client.start(name="wait-1")
    api.client.start(name="gpt-1", wait_limit_seconds=1)

    assert "not begun after 1 s" in api.client.wait("gpt-1", PATIENCE)["failure"]["reason"]
    assert api.client.run("wait-1")["state"] == "running"


def test_a_wait_of_the_client_ends(api: Api) -> None:
    api.client.start(name="wait-1")

    with pytest.raises(TimeoutError, match="it goes on"):
        api.client.wait("wait-1", timeout=0.3)


def test_a_run_of_another_program_is_waited_for(api: Api) -> None:
    lock = take(api.folder, "mine")
    api.client.start(name="gpt-1")
    until(api, "gpt-1", "queued")
    for _ in range(100):
        if behind := api.client.run("gpt-1")["behind"]:
            break
        threading.Event().wait(0.05)
    assert behind == "mine"

    lock.release()
    assert api.client.wait("gpt-1", PATIENCE)["state"] == "ended"


def test_no_more_runs_wait_than_there_is_room_for(api: Api) -> None:
    api.client.start(name="wait-1")
    until(api, "wait-1", "running")
    most = api.client.capacity()["queue"]
    for number in range(most):
        api.client.start(name=f"gpt-{number}")

    with pytest.raises(lockstep.ApiError, match="wait already") as refused:
        api.client.start(name="gpt-99")
    assert (refused.value.status, refused.value.error) == (409, "queue_full")


def test_of_many_who_ask_for_one_name_one_gets_it(api: Api) -> None:
    def ask(_: int) -> int:
        try:
            api.client.start(name="wait-1")
        except lockstep.ApiError as error:
            return error.status
        return 201

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(ask, range(8)))
    assert answers == [201] + [409] * 7


def test_of_many_who_delete_one_run_one_does(api: Api) -> None:
    def ask(_: int) -> int:
        try:
            api.client.delete("made-1")
        except lockstep.ApiError as error:
            return error.status
        return 204

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(ask, range(8)))
    assert answers == [204] + [404] * 7
    assert [] == [each for each in api.folder.iterdir() if not each.name.startswith(".api")]


def test_an_archive_that_is_being_written_is_kept(api: Api) -> None:
    with claim_folder(api.folder / "made-1"), pytest.raises(lockstep.ApiError) as kept:
        api.client.delete("made-1")

    assert (kept.value.status, kept.value.error) == (409, "not_over")
    assert api.client.run("made-1")["state"] == "ended"


def test_when_the_server_ends_its_run_closes_its_archive(api: Api) -> None:
    api.client.start(name="wait-1")
    until(api, "wait-1", "running")
    api.client.start(name="gpt-1")
    while not (api.folder / "wait-1" / "run.json").exists():
        threading.Event().wait(0.01)

    ended = api.starting.close()

    assert ended == ["wait-1", "gpt-1"]
    assert "interrupted" in (api.folder / "wait-1" / "run.json").read_text()
    assert not (api.folder / "gpt-1").exists()
    with pytest.raises(lockstep.ApiError, match="begins no more"):
        api.client.start(name="gpt-2")


OTHER = {
    "name": "other", "workload": "resnet", "nodes": 2, "ranks_per_node": 2, "dp": 4, "tp": 2,
    "pp": 2, "steps": 77, "model": "small", "seed": 5, "faults": ["thermal:rank=1,factor=1.5"],
    "analyze": False, "time_limit_seconds": 7, "wait_limit_seconds": 7,
}  # fmt: skip
"""Of each setting, a value that is not its default."""


@pytest.mark.parametrize("setting", sorted(StartRun.model_fields))
def test_every_setting_that_is_accepted_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setattr(starting_module.kinds, "refused", dict)
    monkeypatch.setattr(starting_module.Starting, "_work", lambda _: None)
    made = starting_module.Starting(tmp_path)

    def plan(**words: object) -> object:
        asked = StartRun.model_validate({"name": "a", **words})
        entry = made.start(asked, frozenset())
        made.stop(entry.name)
        made.forget(entry.name)
        return entry.plan, entry.asked.time_limit_seconds, entry.asked.wait_limit_seconds

    several = {"dp": {"nodes": 8, "tp": 2}, "tp": {"pp": 1}, "pp": {"model": "small"}}
    beside = several.get(setting, {})
    changed = {**beside, setting: OTHER[setting]}
    if setting == "model":
        changed = {"workload": "gpt", "model": "small"}

    assert plan(**changed) != plan(**beside)


def test_both_clients_have_the_same_words(api: Api) -> None:
    def words(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {
            name: list(inspect.signature(each).parameters)
            for name, each in found if not name.startswith("_")
        }  # fmt: skip

    async def ask() -> list[object]:
        async with lockstep.AsyncClient(api.url, token=TOKEN) as client:
            await client.start(name="gpt-1")
            await client.wait("gpt-1", PATIENCE)
            await client.stop("gpt-1")
            taken = await client.post_metrics("gpt-1", [{"metric": "m", "value": 1.5, "time": 1.0}])
            found: list[object] = [
                taken, await client.runs(), await client.run("made-1"),
                await client.series("made-1"), await client.metrics("made-1", "loss", last_n=2),
                await client.download_metrics("made-1", "json", "loss"),
                await client.verdict("made-1"), await client.findings("made-1"),
                await client.findings(), await client.capacity(),
            ]  # fmt: skip
            with pytest.raises(lockstep.ApiError, match="left no results"):
                await client.results("made-1")
            await client.delete("gpt-1")
            return found

    assert words(lockstep.Client) == words(lockstep.AsyncClient)
    _, *found = asyncio.run(ask())
    client = api.client
    assert found[1:] == [
        client.run("made-1"), client.series("made-1"), client.metrics("made-1", "loss", last_n=2),
        client.download_metrics("made-1", "json", "loss"), client.verdict("made-1"),
        client.findings("made-1"), client.findings(), client.capacity(),
    ]  # fmt: skip


def test_a_verdict_and_its_findings_are_those_of_the_archive(api: Api) -> None:
    verdict = api.client.verdict("made-1")
    findings = api.client.findings("made-1")

    assert verdict["status"] == "degraded"
    assert api.client.run("made-1")["sentence"] == verdict["sentence"]
    assert [(each["rank"], each["cause"]) for each in findings] == [
        (each["rank"], each["cause"]) for each in verdict["culprits"]
    ]
    assert [each["run"] for each in api.client.runs(state="ended", limit=1)] == ["made-1"]
    assert api.client.runs(state="hung") == []


def test_nobody_who_answers_is_one_sentence() -> None:
    with (
        lockstep.Client("http://127.0.0.1:9", token="t", timeout=2) as client,
        pytest.raises(lockstep.ApiError, match="does not answer") as away,
    ):
        client.runs()
    assert away.value.status == 0


@pytest.mark.parametrize(
    ("url", "words"),
    [("ftp://x", "no address of an API"), ("http://me:secret@host", "without a name")],
)
def test_an_address_with_a_secret_is_refused_without_it(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as wrong:
        lockstep.Client(url, token="t")
    assert "secret" not in str(wrong.value)


def test_without_a_token_it_is_said_where_one_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKSTEP_API_TOKEN", raising=False)
    monkeypatch.delenv("LOCKSTEP_API_TOKEN_FILE", raising=False)

    with pytest.raises(ValueError, match="LOCKSTEP_API_TOKEN_FILE"):
        lockstep.Client()


def test_no_token_is_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("very-secret\n")
    client = lockstep.Client("http://127.0.0.1:9", token_file=tmp_path / "token")

    assert "very-secret" not in repr(client) + repr(vars(client))


def test_results_of_benchmarks_are_told(api: Api) -> None:
    assert api.client.bench_results() == []
    table = api.folder / "nightly" / "results.parquet"
    results.write(table, {"bench": "nightly", "cell": "gpt", "nodes": 2, "metric_f1": 0.5})
    results.write(table, {"bench": "weekly", "cell": "gpt", "nodes": 4})

    rows = api.client.bench_results("nightly")

    assert [(each["cell"], each["nodes"], each["metric_f1"]) for each in rows] == [("gpt", 2, 0.5)]
    assert len(api.client.bench_results()) == 2
    with pytest.raises(lockstep.ApiError, match="there are nightly, weekly"):
        api.client.bench_results("monthly")
    (table / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(lockstep.ApiError, match=r"torn.parquet cannot be read") as torn:
        api.client.bench_results()
    assert torn.value.status == 409
