"""The Collectives page, with operations and without."""

from typing import Any

import pandas as pd
import pytest

from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.trouble import Kind, TroubleError
from tests.dashboard.apps import look
from tests.dashboard.archives import Made
from tests.dashboard.fakes import Fake
from tests.dashboard.pages.test_straggler import Judged, text
from tests.dashboard.words.verdicts import HEALTHY, LINK


class Windows(Fake):
    """Prometheus alone: ranks are known, operations are not."""

    def collectives(self, run: str, span: Span) -> pd.DataFrame:
        raise TroubleError(Kind.NOT_TOLD, "There are no operations.", "Let lockstep watch run.")


def test_a_slow_link_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Judged(LINK), "collectives", run="gpt-1")
    assert "Yes: the link node-0 – node-1 holds the run back (link)." in text(app)
    assert ["the link node-0 – node-1"] in [
        frame.value.iloc[:, 0].tolist() for frame in app.dataframe
    ]


def test_without_operations_the_page_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Windows(), "collectives", run="gpt-1")
    assert "There are no operations. Let lockstep watch run." in text(app)
    assert "lockstep watch fetches them" in text(app)
    assert [0, 1, 2, 3] == app.dataframe[0].value["rank"].tolist()
    assert not app.get("plotly_chart")


def test_an_operation_of_the_address_is_the_only_one_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), "collectives", run="gpt-1", op="dp-all-reduce", rank="1")
    assert ["dp-all-reduce"] == app.dataframe[0].value["operation"].tolist()
    assert ["dp-all-reduce"] == app.dataframe[-1].value["operation"].tolist()


def test_an_operation_that_is_none_is_said_to_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), "collectives", run="gpt-1", op="x<b>")
    assert "No operation of this run is called x<b>." in text(app)


def test_nothing_told_is_unknown_and_not_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Judged(HEALTHY)
    source.told = False
    app = look(monkeypatch, source, "collectives", run="gpt-1")
    assert "How long ranks are in collectives is unknown" in text(app)


def test_an_archive_shows_bandwidths_and_who_comes_last(
    monkeypatch: pytest.MonkeyPatch, straggling: Any
) -> None:
    app = look(monkeypatch, ArchiveSource(straggling), "collectives", run=Made().name)
    assert "No: the others wait for rank 2 (node-1, GPU 0)" in text(app)
    charts = [chart.proto.spec for chart in app.get("plotly_chart")]
    assert 3 == len(charts)
    assert "dp-all-reduce" in charts[1]
