"""The list of runs: filters in the address, a thousand runs, links."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.dashboard.address import Location
from lockstep.dashboard.figures.ledger import ledger
from lockstep.dashboard.shapes import LedgerRow, RunRow, Severity, Span
from lockstep.dashboard.sources.folder import FolderSource
from lockstep.dashboard.words.run_table import Wish, frame, headline, sentence, wished
from tests.dashboard.apps import boxes, everything, look
from tests.dashboard.fakes import SPAN, Fake
from tests.machine import slowness


class Many(Fake):
    """A thousand runs; every tenth is held back."""

    def runs(self, span: Span | None = None) -> tuple[RunRow, ...]:
        base = self._row("gpt-1")
        return tuple(
            replace(
                base, run=f"gpt-{number:04d}", status="degraded" if number % 10 == 0 else "healthy",
                slowdown=1.0 + number / 1000, span=Span(SPAN.start - number, SPAN.end),
            )
            for number in range(1000)
        )  # fmt: skip


def test_a_thousand_runs_are_listed_fifty_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Many(), "runs")

    assert "1,000 runs: all ended; 100 held back; 600.0 GPU-h lost in all." in (boxes(app))
    assert 50 == len(app.dataframe[0].value)


@pytest.mark.timed
def test_a_thousand_runs_take_no_time() -> None:
    rows = Many().runs()
    with slowness() as machine:
        began = time.thread_time()
        found = frame(wished(rows, Wish("gpt", "ended", "degraded", "slowest first")), Location())
        took = time.thread_time() - began

    assert 100 == len(found)
    assert took < 0.2 * machine.factor


def test_filters_are_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Many(), "runs", verdict="degraded", q="gpt-09", order="slowest first")

    assert ["gpt-0990", "gpt-0980"] == list(app.dataframe[0].value["run"][:2])
    assert "gpt-09" == app.text_input("pick-q").value

    app.selectbox("pick-verdict").set_value("healthy").run()

    assert "healthy" == app.query_params["verdict"]
    assert ["gpt-0999", "gpt-0998"] == list(app.dataframe[0].value["run"][:2])


def test_words_of_the_address_that_are_none_are_no_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = look(monkeypatch, Fake(), "runs", state="<script>", order="x", q="$$")

    assert not app.exception
    assert any("matches the filter" in text for text in boxes(app))


def test_without_runs_the_page_says_how_to_make_one(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(run_names=()), "runs")

    assert "No run is known here." in boxes(app)
    assert "lockstep run gpt" in [code.value for code in app.code]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ((), "No run is known here."),
        ((RunRow("a", "hung", SPAN),), "1 run: hung; 1 not analyzed."),
        (
            (RunRow("a", "ended", SPAN, status="healthy", lost_gpu_hours=0.0),
             RunRow("b", "failed", SPAN, status="degraded", lost_gpu_hours=0.004)),
            "2 runs: 1 ended, 1 failed; 1 held back; 14.4 GPU-s lost in all.",
        ),
    ],
)  # fmt: skip
def test_the_sentence_says_what_ran_and_how_it_ended(rows: tuple[RunRow, ...], told: str) -> None:
    assert told == sentence(rows, rows)[0]


# The page that compares two runs, as a reader sees it.


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
    assert any("None: both runs had the same settings" in each.value for each in app.caption)
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
    assert any("Whether b is slower than a is unknown" in each for each in boxes(app))


def test_up_to_eight_runs_are_held_against_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(f"gpt-{index}" for index in range(9))
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


# The page of the ledger: one stacked bar a run, and one sentence.

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
    assert headline((), "gpt-1").text == "Where the time of run gpt-1 went is unknown."


def test_much_that_is_unknown_is_no_answer():
    row = replace(ROW, buckets={"computing": 95.0, "unknown": 30.0}, stragglers={})
    said = headline((row,), "")
    assert said.severity is Severity.UNKNOWN
    assert "Where 24% went is unknown." in said.text


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
    assert "The time of every run here is unknown" in ledger(()).text
