"""The page that compares two runs, as a reader sees it."""

from pathlib import Path

import pytest

from lockstep.dashboard.sources.folder import FolderSource
from tests.dashboard.apps import boxes, look
from tests.dashboard.fakes import Fake


def test_a_run_with_a_straggler_is_slower_than_one_without(
    monkeypatch: pytest.MonkeyPatch, runs: Path
) -> None:
    source = FolderSource(runs)
    slow, fast = sorted(
        (row for row in source.runs() if row.status), key=lambda row: row.status == "healthy"
    )
    app = look(monkeypatch, source, "runs", view="compare", a=fast.run, b=slow.run)
    assert not app.exception
    (said,) = [each for each in boxes(app) if "per step than a" in each]
    assert "slower" in said
    measured = next(each.value for each in app.dataframe if "in words" in each.value)
    assert "higher in b" in " ".join(measured["in words"])


def test_two_runs_that_are_alike_are_told_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), "runs", view="compare", a="gpt-1", b="gpt-0")
    assert not app.exception
    assert any("within noise" in each for each in boxes(app))
    assert any("None: both runs were told the same" in each.value for each in app.caption)
    assert 4 == len(app.get("plotly_chart"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, "Choose two runs"),
        ({"a": "gpt-1"}, "Choose two runs"),
        ({"a": "gpt-1", "b": "gpt-1"}, "are the same run"),
        ({"a": "gpt-1", "b": "nobody"}, "There is no run nobody"),
    ],
)
def test_what_cannot_be_compared_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, str], said: str
) -> None:
    app = look(monkeypatch, Fake(), "compare", **words)
    assert not app.exception
    assert any(said in each for each in boxes(app))


def test_one_run_alone_cannot_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(run_names=("gpt-1",)), "compare")
    assert any("needs two runs" in each for each in boxes(app))


def test_runs_without_numbers_are_unknown_and_no_exception(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = look(monkeypatch, Fake(told=False), "runs", view="compare", a="gpt-1", b="gpt-0")
    assert not app.exception
    assert any("cannot be said" in each for each in boxes(app))


def test_up_to_eight_runs_are_held_against_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(f"gpt-{place}" for place in range(9))
    more = ",".join(names[2:])  # one too many
    app = look(
        monkeypatch, Fake(run_names=names), "runs", view="compare", a="gpt-0", b="gpt-1", more=more
    )
    assert not app.exception
    frame = app.dataframe[0].value
    assert list(names[:8]) == frame["run"].tolist()
    assert "b against a" in [each.value for each in app.subheader]


def test_further_runs_that_are_not_there_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(
        monkeypatch, Fake(), "runs", view="compare", a="gpt-0", b="gpt-1", more="nobody,<script>"
    )
    assert not app.exception
    assert "b against a" not in [each.value for each in app.subheader]
