"""The page of a run, as a reader sees it; its states are in tests/dashboard/test_states.py."""

import json
from pathlib import Path

import pytest

from lockstep.dashboard.pages import run
from lockstep.dashboard.sources.archive.source import ArchiveSource
from tests.dashboard.apps import boxes, look
from tests.dashboard.fakes import Fake

CHARTS = 9


def test_the_page_says_who_and_what_it_would_gain_and_draws_everything_on_one_axis(
    monkeypatch: pytest.MonkeyPatch, straggling: Path
) -> None:
    source = ArchiveSource(straggling)
    (row,) = source.runs()
    app = look(monkeypatch, source, "run", run=row.run)
    assert not app.exception
    assert row.sentence in " ".join(boxes(app))
    figure = json.loads(app.get("plotly_chart")[0].proto.spec)
    layout = figure["layout"]
    assert len([key for key in layout if key.startswith("yaxis")]) >= CHARTS
    assert ["xaxis"] == [key for key in layout if key.startswith("xaxis")]
    assert layout["shapes"]
    assert app.get("plotly_chart")[0].proto.alt


def test_the_axis_of_the_address_is_the_axis_of_the_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), "run", run="gpt-1", axis="step")
    layout = json.loads(app.get("plotly_chart")[0].proto.spec)["layout"]
    assert "step" == layout["xaxis"]["title"]["text"]


def test_a_baseline_in_the_address_is_drawn_dashed(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), "run", run="gpt-1", b="gpt-0")
    drawn = json.loads(app.get("plotly_chart")[0].proto.spec)["data"]
    assert {"dash"} == {
        each["line"]["dash"] for each in drawn if "(baseline)" in each.get("name", "")
    }


def test_a_run_that_nobody_analyzed_says_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(analyzed=False), "run", run="gpt-1")
    assert any("Nobody analyzed run" in each for each in boxes(app))
    assert any(each.value.startswith("lockstep analyze") for each in app.code)


def test_every_row_leads_to_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    # Boxes are drawn when they are opened, which AppTest cannot do.
    monkeypatch.setattr(run, "later", lambda _label, _key, draw: draw())
    app = look(monkeypatch, Fake(), "run", run="gpt-1")
    links = [link for each in app.dataframe if "open" in each.value for link in each.value["open"]]
    assert any(link.startswith("/node?") and "rank=0" in link for link in links)
    assert any(link.startswith("/node?") and "from=" in link for link in links)
