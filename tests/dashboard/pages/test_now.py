"""The first page."""

from typing import Any

import pytest

from lockstep.dashboard.shapes import Event, FindingRow, Severity, Span
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.trouble import Kind, TroubleError
from tests.dashboard.apps import look
from tests.dashboard.archives import Made
from tests.dashboard.fakes import SPAN, Fake
from tests.dashboard.pages.test_straggler import text
from tests.dashboard.words.rows import found


class Quiet(Fake):
    """Nothing was found and nothing happened; nobody can draw a map."""

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        return ()

    def events(self, span: Span, run: str = "", node: str = "") -> tuple[Event, ...]:
        return ()

    def fleet(self, *_: Any) -> Any:
        raise TroubleError(Kind.NOT_TOLD, "Nobody told of GPUs.", "Run lockstep collect.")


class Busy(Fake):
    """More findings and events than a page can hold."""

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        return tuple(found(finding=f"f-{number}", since=SPAN.start + 1) for number in range(500))

    def events(self, span: Span, run: str = "", node: str = "") -> tuple[Event, ...]:
        return tuple(
            Event(SPAN.start + number / 10, None, "xid", Severity.WARNING, f"XID {number}")
            for number in range(100)
        )


def test_the_worst_finding_comes_first_and_links_lead_to_it(
    monkeypatch: pytest.MonkeyPatch, straggling: Any
) -> None:
    app = look(monkeypatch, ArchiveSource(straggling))
    row = app.dataframe[0].value.iloc[0]
    assert "Rank 2 (node-1, GPU 0) is 1.50x slower" in text(app)
    assert ("node-1", 2, "thermal") == (row["node"], row["rank"], row["cause"])
    assert row["why"].startswith("/straggler?run=gpt-")
    assert 6 == len(app.metric)


def test_links_and_the_drain_command_stand_under_the_sentence(
    monkeypatch: pytest.MonkeyPatch, straggling: Any
) -> None:
    app = look(monkeypatch, ArchiveSource(straggling))
    links = [link.proto.label.replace("\\", "") for link in app.main if link.type == "page_link"]
    assert ["Open node-1", "Evidence"] == links[:2]
    assert "kubectl drain node-1" in "".join(code.value for code in app.code)


def test_what_a_table_does_not_know_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = look(monkeypatch, Busy()).dataframe[0].proto
    assert (True, "") == (shown.HasField("placeholder"), shown.placeholder)


def test_a_map_of_a_recorded_run_says_of_which_run_and_when(
    monkeypatch: pytest.MonkeyPatch, straggling: Any
) -> None:
    words = text(look(monkeypatch, ArchiveSource(straggling)))
    assert f"Of run {Made().name} at 20" in words


def test_a_healthy_archive_says_what_its_run_says(
    monkeypatch: pytest.MonkeyPatch, healthy: Any
) -> None:
    app = look(monkeypatch, ArchiveSource(healthy))
    assert "No rank holds this run back." in [box.value.replace("\\", "") for box in app.success]


def test_what_nobody_told_is_a_line_and_no_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    words = text(look(monkeypatch, Quiet()))
    for line in ("None is known in this range.", "No event was reported in this range.",
                 "Nobody told of GPUs. Run lockstep collect."):  # fmt: skip
        assert line in words


def test_many_findings_and_events_are_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Busy())
    assert "300 more are not shown" in text(app)
    assert "90 earlier ones" in text(app)
    assert 50 == len(app.dataframe[0].value)
    assert ["XID 99", "XID 98"] == app.dataframe[1].value["what"].tolist()[:2]


def test_nothing_analyzed_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Quiet()
    source.analyzed = False
    app = look(monkeypatch, source)
    assert "2 of 2 runs were not analyzed" in text(app)
    assert not app.success
