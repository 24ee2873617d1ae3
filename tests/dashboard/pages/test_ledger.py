"""The page of the ledger: one stacked bar a run, and one sentence."""

from dataclasses import replace

import pytest

from lockstep.dashboard.figures.ledger import ledger
from lockstep.dashboard.shapes import LedgerRow, Severity
from lockstep.dashboard.words.run_table import headline
from tests.dashboard.apps import boxes, everything, look
from tests.dashboard.fakes import SPAN, Fake

ROW = Fake().ledgers(SPAN, "gpt-1")[0]


def test_the_page_says_how_much_was_useful_and_the_largest_loss(monkeypatch: pytest.MonkeyPatch):
    app = look(monkeypatch, Fake(), "runs", view="ledger", run="gpt-1")

    assert "71% useful; the largest loss is starting, 15%." in boxes(app)
    assert "a part is not known" in everything(app)


def test_of_several_runs_the_sum_is_told(monkeypatch: pytest.MonkeyPatch):
    app = look(monkeypatch, Fake(), "runs", view="ledger")

    assert "71% of the time of 2 runs was useful; the largest loss is starting, 15%." in boxes(app)


def test_nothing_told_is_unknown_and_never_well():
    assert headline((), "").severity is Severity.UNKNOWN
    assert headline((), "gpt-1").text == "Nothing is known of where the time of run gpt-1 went."


def test_much_that_is_unknown_is_no_answer():
    row = replace(ROW, buckets={"computing": 95.0, "unknown": 30.0}, stragglers={})
    said = headline((row,), "")
    assert said.severity is Severity.UNKNOWN
    assert "Of 24% nobody knows where it went." in said.text


def test_a_bar_has_all_of_a_run_and_unknown_is_last():
    other = LedgerRow("gpt-0", "vision", "x", {"computing": 10.0}, {})
    shown = ledger((ROW, other))

    bars = shown.figure["data"]
    assert bars[0]["name"] == "computing"
    assert bars[-1]["name"] == "unknown"
    assert [sum(bar["x"][place] for bar in bars) for place in (0, 1)] == pytest.approx([100, 100])
    assert shown.table["share"].groupby(shown.table["run"]).sum().tolist() == [1.0, 1.0]


def test_a_hostile_name_stays_text():
    shown = ledger((replace(ROW, run="<b>x</b>", stragglers={"<i>n</i>": 5.0}),))
    assert "<b>" not in str(shown.figure)
    assert "<i>" not in str(shown.figure)


def test_no_time_is_no_bar():
    assert "Nothing is known" in ledger(()).text
