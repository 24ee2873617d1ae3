"""The page that starts runs, over a program in the place of `lockstep`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from lockstep.dashboard.context import Settings
from lockstep.dashboard.starting import process, registry
from lockstep.dashboard.trouble import Kind, TroubleError
from tests.dashboard.apps import boxes, look
from tests.dashboard.fakes import Fake

PROGRAM = Path(__file__).parents[1] / "starting" / "fake_program.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where runs go; what still goes on at the end is stopped."""
    monkeypatch.setattr(process, "PROGRAM", (sys.executable, str(PROGRAM)))
    monkeypatch.setenv("LOCKSTEP_DASHBOARD_SETTINGS", Settings(runs=tmp_path).written())
    yield tmp_path
    if (job := registry.of(tmp_path).job) is not None:
        job.stop()
        assert job.wait(10)


def _page(patch: pytest.MonkeyPatch, source: Fake | None = None) -> AppTest:
    return look(patch, source or Fake(), "start")


def _commands(app: AppTest) -> list[str]:
    return [code.value for code in app.code if code.value.startswith("lockstep run")]


def test_without_a_folder_it_says_how_to_enable_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = _page(monkeypatch)

    assert any("Runs cannot be started here" in text for text in boxes(app))
    assert "lockstep dashboard runs --runs runs" in [code.value for code in app.code]
    assert [] == [button.key for button in app.button if button.key == "start-start"]


def test_a_folder_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setenv("LOCKSTEP_DASHBOARD_SETTINGS", Settings(runs=gone).written())

    assert any(f"Runs go to {gone}" in text for text in boxes(_page(monkeypatch)))


def test_the_command_line_follows_the_form(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = _page(monkeypatch)
    usual = "lockstep run gpt --nodes 4 --ranks-per-node 1 --tp 1 --pp 1 --steps 150 --seed 0"
    assert [f"{usual} --out {folder}/gpt-1"] == _commands(app)

    app.selectbox("pick-preset").set_value("GPT, one GPU too hot").run()
    app.number_input("start-1-from_step").set_value(60).run()

    assert "--fault thermal:rank=2,factor=1.5,from=60" in _commands(app)[0]


def test_what_cannot_be_run_cannot_be_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = _page(monkeypatch)

    app.number_input("start-0-tp").set_value(3).run()

    assert any("does not match 4 nodes" in text for text in boxes(app))
    assert app.button("start-start").disabled


def test_a_run_is_started_seen_in_a_second_tab_and_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = _page(monkeypatch)
    app.text_input("start-name").set_value("wait-1").run()
    app.button("start-start").click().run()

    assert any("wait-1 is running" in text for text in boxes(app))
    assert app.button("start-start").disabled
    assert "" == app.text_input("start-name").value
    other = _page(monkeypatch)
    assert any("wait-1 is running" in text for text in boxes(other))

    other.button("start-stop").click().run()
    job = registry.of(folder).job
    assert job is not None
    assert job.wait(10)
    other.run()
    assert any("wait-1 was stopped" in text for text in boxes(other))
    assert not other.button("start-start").disabled


def test_who_comes_second_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = _page(monkeypatch), _page(monkeypatch)
    one.text_input("start-name").set_value("wait-1").run()
    two.text_input("start-name").set_value("wait-2").run()
    one.button("start-start").click().run()

    two.button("start-start").click().run()

    assert any("One run at a time: wait-1 goes on" in text for text in boxes(two))
    assert not (folder / "wait-2").exists()


def test_a_run_can_be_started_where_there_is_no_source(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = TroubleError(Kind.NO_SOURCE, "There is no source.", "lockstep dashboard DIR")
    app = _page(monkeypatch, Fake(trouble=trouble))

    app.button("start-start").click().run()

    job = registry.of(folder).job
    assert job is not None
    assert job.wait(20)
    app.run()
    assert any("gpt-1 ended as it should" in text for text in boxes(app))
    assert f"lockstep dashboard {folder}/gpt-1" in [code.value for code in app.code]
