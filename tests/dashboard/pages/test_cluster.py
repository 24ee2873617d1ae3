"""The Cluster page, without a browser."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from lockstep.dashboard import palette
from tests.dashboard import apps
from tests.dashboard.fakes import Fake
from tests.dashboard.pages.boxes import said, sentences

HOSTILE = "<script>alert(1)</script>"


def look(patch: pytest.MonkeyPatch, source: Fake, **words: str):  # type: ignore[no-untyped-def]
    app = apps.look(patch, source, "cluster", **words)
    assert not app.exception
    return app


def test_the_first_sentence_says_how_many_deviate_and_which_is_the_worst(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = look(monkeypatch, Fake())
    told = said(app)
    assert "3 of 4 GPUs of run gpt-1 at 2023-11-14 22:14:20 UTC are far from the peers" in told
    assert "; the worst is node-1, GPU 1, rank 3: 1.30×." in told


def test_the_worst_places_have_links_to_their_gpu_and_node(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = look(monkeypatch, Fake()).dataframe[0].value
    link = urlsplit(frame["GPU page"].iloc[0])
    expected = {"run": ["gpt-1"], "node": ["node-1"], "gpu": ["1"], "rank": ["3"]}
    assert ("/node", expected) == (link.path, parse_qs(link.query))
    assert "/node?run=gpt-1&node=node-1" == frame["node page"].iloc[0]


def test_the_metric_of_the_address_is_shown_in_cividis(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), metric="temperature")
    cells = json.loads(app.get("plotly_chart")[0].proto.spec)["data"][0]
    assert [list(stop) for stop in palette.scale(palette.SEQUENTIAL)] == cells["colorscale"]


def test_a_metric_that_there_is_not_is_told_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = " ".join(sentences(look(monkeypatch, Fake(), metric="beauty")))
    assert "beauty" in told


def test_a_run_narrows_the_page_to_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), run="gpt-1")
    assert "GPUs of run gpt-1" in said(app)


@pytest.mark.parametrize("source", [Fake(told=False), Fake(silent=("node-9",)), Fake(live=True)])
def test_whatever_the_source_knows_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, source: Fake
) -> None:
    assert sentences(look(monkeypatch, source))


def test_a_hostile_name_is_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(node_names=(HOSTILE, "b")), metric="errors")
    assert HOSTILE not in " ".join(sentences(app))
    assert all("<script" not in chart.proto.spec for chart in app.get("plotly_chart"))
