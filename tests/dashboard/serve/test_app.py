"""The frame around the pages: who may look, whom a page is about, what the sidebar changes."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from lockstep.dashboard.context import Context, Page, Settings
from lockstep.dashboard.pages import registry
from lockstep.dashboard.pages.registry import PAGES
from lockstep.dashboard.shapes import Answer, Span
from tests.dashboard.apps import boxes, look
from tests.dashboard.fakes import SPAN, Fake

SETTINGS = "LOCKSTEP_DASHBOARD_SETTINGS"


def only(monkeypatch: pytest.MonkeyPatch, show: Any, key: str = "now", needs: str = "") -> None:
    """An app of one page."""
    made = Page(key, "Made", ":material/help:", "Is it?", "Watch", "know", show, needs)
    monkeypatch.setattr(registry, "PAGES", (made,))


def seen(monkeypatch: pytest.MonkeyPatch, given: Fake, needs: str = "", **words: str) -> Context:
    """What a page is given at an address."""
    contexts: list[Context] = []
    only(monkeypatch, contexts.append, needs=needs)
    app = look(monkeypatch, given, **words)
    assert [] == boxes(app)
    return contexts[-1]


def labels(app: AppTest) -> list[str]:
    return [link.proto.label for link in app.main if link.type == "page_link"]


def test_every_page_has_a_key_a_question_and_a_group() -> None:
    assert len(PAGES) == len({page.key for page in PAGES})
    assert {"Watch", "Look closer", "Runs", "Help"} == {page.group for page in PAGES}
    assert all(page.question.endswith("?") for page in PAGES)


def test_help_leads_to_every_other_page(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [text.value for text in look(monkeypatch, Fake(), "health", view="help").text]

    assert [f"… {page.intention}" for page in PAGES if page.intention] == [
        text for text in told if text.startswith("… ")
    ]


@pytest.mark.parametrize(
    ("before", "words", "title", "sentence"),
    [
        (
            "gpu",
            {"run": "gpt-1", "node": "node-1", "gpu": "0"},
            "Node and GPU",
            "node-1, GPU 0, rank",
        ),
        ("gpu", {"run": "gpt-1", "rank": "2"}, "Node and GPU", "node-1, GPU 0, rank 2 took"),
        ("gpu", {"run": "gpt-1"}, "Node and GPU", "Which node?"),
        ("compare", {"a": "gpt-1", "b": "gpt-0"}, "Runs", "of b and a"),
        ("ledger", {"run": "gpt-1"}, "Runs", "71% useful"),
        ("reports", {"run": "gpt-1", "finding": "F-1"}, "Run", "no archive of gpt-1"),
        ("help", {}, "Data health and help", "A step is as slow as its slowest rank"),
    ],
)
def test_an_address_of_a_page_of_before_leads_to_where_it_is_answered_now(
    monkeypatch: pytest.MonkeyPatch, before: str, words: dict[str, str], title: str, sentence: str
) -> None:
    app = look(monkeypatch, Fake(), before, **words)

    assert title == app.title[0].value
    assert sentence in "\n".join(boxes(app))
    assert words.items() <= app.query_params.items()


def test_no_page_of_today_stands_where_one_of_before_was() -> None:
    assert not {page.key for page in PAGES} & registry.MOVED.keys()
    assert {now for now, _ in registry.MOVED.values()} <= {page.key for page in PAGES}


def test_a_bug_is_one_sentence_without_its_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(_: Context) -> None:
        raise ZeroDivisionError("the secret is 42")

    only(monkeypatch, show)
    app = look(monkeypatch, Fake())
    assert ["This is a bug: the page Made ended with ZeroDivisionError."] == boxes(app)
    assert "42" not in "".join(capsys.readouterr())


def test_a_bug_is_traced_to_stderr_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def show(_: Context) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setenv("LOCKSTEP_DEBUG", "1")
    only(monkeypatch, show)
    look(monkeypatch, Fake())
    assert "Traceback" in capsys.readouterr().err


def test_the_only_run_is_taken_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "gpt-1" == seen(monkeypatch, Fake(run_names=("gpt-1",)), "run").location.run


def test_of_several_runs_the_reader_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), "straggler")
    assert ["Which run? There are 2; open one."] == boxes(app)
    (table,) = app.main.dataframe
    assert ["/straggler?run=gpt-1", "/straggler?run=gpt-0"] == list(table.value["open"])


def test_a_deep_link_lands_on_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"run": "gpt-1", "from": str(int(SPAN.start * 1000)), "to": str(int(SPAN.end * 1000))}
    assert SPAN == seen(monkeypatch, Fake(), **words).span


def test_the_last_minutes_of_a_recorded_run_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"run": "gpt-1", "from": "now-15s"}
    span = seen(monkeypatch, Fake(), **words).span
    assert (SPAN.end - 15, SPAN.end) == (span.start, span.end)


def test_a_fragment_refreshes_a_live_page_only(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, lambda _: None)
    live = look(monkeypatch, Fake(live=True))
    assert "every 15 s" in live.sidebar.selectbox(key="side-refresh").options
    recorded = look(monkeypatch, Fake())
    assert ["Run", "Range"] == [box.label for box in recorded.sidebar.selectbox]


def test_the_sidebar_writes_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, lambda _: None)
    app = look(monkeypatch, Fake())
    app.sidebar.selectbox(key="side-run").select("gpt-0")
    app.sidebar.selectbox(key="range").select("1 h")
    app.run()
    assert {"run": "gpt-0", "from": "now-1h"} == app.query_params


def test_a_range_of_ones_own_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, lambda _: None)
    app = look(monkeypatch, Fake(), run="gpt-1", **{"from": "now-1y"})
    assert "custom" == app.sidebar.selectbox(key="range").value
    start, end = (each.value for each in app.sidebar.get("date_time_input"))
    assert 365 == round((end - start).total_seconds() / 86_400)


def test_a_page_of_a_run_says_what_is_missing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torn(Fake):
        def answer(self, span: Span | None = None, run: str = "") -> Answer:
            return replace(super().answer(span, run), missing=("a part",) if run else ())

    only(monkeypatch, lambda _: None)
    said = {run: [each.value for each in look(monkeypatch, Torn(), run=run).main.caption]
            for run in ("", "gpt-1")}  # fmt: skip
    assert not [text for text in said[""] if "a part" in text]
    assert [text for text in said["gpt-1"] if "a part" in text]


def test_a_range_without_the_run_leads_to_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), run="gpt-1", **{"from": "2027-01-01"})
    assert any(box.startswith("This range has nothing of the run") for box in boxes(app))
    assert "Show the whole run" in labels(app)


def test_an_address_sets_the_sidebar(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, lambda _: None)
    words = {"run": "gpt-0", "from": "now-6h", "refresh": "60"}
    app = look(monkeypatch, Fake(live=True), **words)
    assert "gpt-0" == app.sidebar.selectbox(key="side-run").value
    assert "6 h" == app.sidebar.selectbox(key="range").value
    assert "60" == app.sidebar.selectbox(key="side-refresh").value


def test_links_between_pages_keep_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), "node", run="gpt-1", node="node-0")
    links = {link.proto.label: link.proto.query_string for link in app.sidebar
             if link.type == "page_link"}  # fmt: skip
    assert "run=gpt-1&node=node-0" == links["Straggler"]


def test_who_is_not_logged_in_sees_a_button_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SETTINGS, Settings(login=True).written())
    fake = Fake()
    app = look(monkeypatch, fake)
    assert ["This dashboard is for people who are logged in."] == boxes(app)
    assert ["Log in"] == [button.label for button in app.button]
    assert [] == fake.asked


def test_who_is_logged_in_sees_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS, Settings(login=True).written())
    monkeypatch.setattr(sys.modules["streamlit"], "user", {"is_logged_in": True})
    app = look(monkeypatch, Fake(), "start")
    assert "Start a run" == app.title[0].value
    assert ["Log out"] == [button.label for button in app.sidebar.button]


def test_settings_are_read_as_they_were_written() -> None:
    settings = replace(Settings(), grafana="http://g", refresh_seconds=5.0, login=True)
    assert settings == Settings.read(settings.written())
    assert Settings() == Settings.read("")


def test_no_text_ever_becomes_html() -> None:
    folder = Path(registry.__file__).parent.parent
    words = ("unsafe_allow_" + "html", "st.html(", "unsafe_allow_" + "javascript")
    # Style sheets that are constants, with no text of anybody in them.
    ours = {"st.html(GREY)": "", "st.html(STYLE)": ""}
    pages = {path: path.read_text() for path in folder.rglob("*.py")}
    for call, nothing in ours.items():
        pages = {path: page.replace(call, nothing) for path, page in pages.items()}
    assert [] == [path for path, page in pages.items() if any(word in page for word in words)]
