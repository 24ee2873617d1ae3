"""The Start and Runs pages over a real `lockstep api`, whose runs are of a fake program."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra api")

from lockstep.bench.api.shapes import StartRun
from lockstep.dashboard.context import Settings
from lockstep.dashboard.sources.folder import FolderSource
from lockstep.dashboard.starting import remote
from lockstep.dashboard.starting.plan import Form
from lockstep.dashboard.starting.process import Stage
from lockstep.dashboard.starting.progress import headline, progress
from tests.bench.api.served import TOKEN, Api, served
from tests.dashboard.apps import boxes, look


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setenv("LOCKSTEP_API_TOKEN", TOKEN)
    monkeypatch.delenv("LOCKSTEP_API_TOKEN_FILE", raising=False)
    monkeypatch.setattr(remote, "_MADE", {})
    with served(tmp_path / "runs") as made:
        settings = Settings(api=made.url, local=True).written()
        monkeypatch.setenv("LOCKSTEP_DASHBOARD_SETTINGS", settings)
        yield made
        for each in remote._MADE.values():
            each.close()


def test_a_run_is_started_queued_stopped_and_deleted_from_the_pages(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FolderSource(api.folder)
    app = look(monkeypatch, source, "start")
    app.text_input("start-name").set_value("wait-1").run()
    app.button("start-start").click().run()
    assert api.client.run("wait-1")["state"] in ("queued", "running")

    app = look(monkeypatch, source, "start")
    app.text_input("start-name").set_value("gpt-1").run()
    assert not app.button("start-start").disabled  # it would wait, and can be asked for
    app.button("start-start").click().run()
    assert api.client.capacity()["waiting"] == ["gpt-1"]
    assert any("gpt-1" in each.value for each in app.caption)

    app.button("start-stop").click().run()
    assert api.client.wait("wait-1", 30)["state"] == "stopped"
    assert api.client.wait("gpt-1", 30)["state"] == "ended"
    assert any("ended as it should" in text or "stopped" in text
               for text in boxes(look(monkeypatch, source, "start")))  # fmt: skip


def test_what_the_api_refuses_is_said(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, FolderSource(api.folder), "start")
    app.text_input("start-name").set_value("made-1").run()
    assert any("made-1 is there already" in text for text in boxes(app))


def test_an_api_that_is_away_is_said(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "LOCKSTEP_DASHBOARD_SETTINGS", Settings(api="http://127.0.0.1:9", local=True).written()
    )

    app = look(monkeypatch, FolderSource(api.folder), "start")
    assert any("does not answer" in text for text in boxes(app))
    assert not app.exception
    runs = look(monkeypatch, FolderSource(api.folder), "runs")
    assert any("Whether runs wait is unknown" in each.value for each in runs.caption)
    assert not runs.exception


def test_every_field_of_a_form_reaches_the_api() -> None:
    form = Form(
        workload="resnet", nodes=2, ranks_per_node=2, dp=4, tp=1, pp=1, steps=77,
        model="resnet20", seed=5, fault="thermal", scope="node", place=1, factor=2.0, from_step=20,
        follow=False,
    )  # fmt: skip

    asked = StartRun.model_validate(remote.settings(form, "mine"))

    assert asked.faults == ["thermal:node=1,factor=2,from=20"]
    assert (asked.name, asked.workload, asked.nodes, asked.ranks_per_node, asked.dp) == (
        "mine", "resnet", 2, 2, 4,
    )  # fmt: skip
    assert (asked.steps, asked.model, asked.seed, asked.analyze) == (77, "resnet20", 5, False)


@pytest.mark.parametrize(
    ("state", "stage", "words"),
    [
        ("queued", Stage.QUEUED, "waits behind other"), ("running", Stage.RUNNING, "is running"),
        ("analyzing", Stage.ANALYZING, "analyzed"), ("ended", Stage.OVER, "ended as it should"),
        ("failed", Stage.OVER, "failed"), ("hung", Stage.OVER, "failed"),
        ("stopped", Stage.OVER, "was stopped"), ("unknown", Stage.OVER, "was not started"),
    ],
)  # fmt: skip
def test_every_state_of_the_api_has_its_sentence(state: str, stage: Stage, words: str) -> None:
    begun = None if state == "queued" else "2026-11-24T13:00:00+00:00"
    told = {
        "run": "mine", "state": state, "started": begun, "ended": None, "command": "lockstep run",
        "behind": "other" if state == "queued" else None,
        "failure": {"reason": "rank 1 ended"} if state in ("failed", "hung") else None,
    }  # fmt: skip

    shown = remote.snapshot(told, [], datetime(2026, 11, 24, 13, 1, tzinfo=UTC))

    assert shown.stage is stage
    assert words in headline(shown, progress(()))[0]
    assert shown.seconds == (0 if state == "queued" else 60)
