"""The list of runs: filters in the address, a thousand runs, links."""

import time
from dataclasses import replace

import pytest

from lockstep.dashboard.address import Place
from lockstep.dashboard.shapes import RunRow, Span
from lockstep.dashboard.words.run_table import Wish, frame, sentence, wished
from tests.dashboard.apps import boxes, look
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

    assert "1,000 runs: all ended; 100 held back by somebody; 600.0 GPU-h lost in all." in (
        boxes(app)
    )
    assert 50 == len(app.dataframe[0].value)


@pytest.mark.timed
def test_a_thousand_runs_take_no_time() -> None:
    rows = Many().runs()
    with slowness() as machine:
        began = time.thread_time()
        found = frame(wished(rows, Wish("gpt", "ended", "degraded", "slowest first")), Place())
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
    assert any("is as you ask" in text for text in boxes(app))


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
            "2 runs: 1 ended, 1 failed; 1 held back by somebody; 14.4 GPU-s lost in all.",
        ),
    ],
)  # fmt: skip
def test_the_sentence_says_what_ran_and_how_it_ended(rows: tuple[RunRow, ...], told: str) -> None:
    assert told == sentence(rows, rows)[0]
