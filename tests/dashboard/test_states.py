"""Every page in every state: a sentence and a next step, never a traceback."""

import pytest
from streamlit.testing.v1 import AppTest

from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.dashboard.views import PAGES
from tests.dashboard.apps import boxes, look
from tests.dashboard.fakes import Fake

NO_SOURCE = TroubleError(
    Kind.NO_SOURCE, "The dashboard was started without a source.",
    "Start it with one: `lockstep dashboard DIR`",
)  # fmt: skip
REFUSED = TroubleError(
    Kind.REFUSED, "http://prometheus:9090 answers 403 Forbidden.",
    "Set LOCKSTEP_PROMETHEUS_TOKEN, then start the dashboard again.",
)  # fmt: skip
HERE = {"run": "gpt-1", "node": "node-0", "gpu": "1", "rank": "1", "a": "gpt-1", "b": "gpt-0"}
ALONE = ("help", "start")
"""Pages that say the same whatever the source is."""
BY_RUN = ("run", "straggler", "collectives", "reports")
NOT_OF_ONE_RUN = ("compare", *ALONE)
WITHOUT_VERDICT = ("run", "straggler", "now", "runs")


def pages(*without: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", [p.key for p in PAGES if p.key not in without])


def next_steps(app: AppTest) -> list[str]:
    """What a reader can do: a link, alone or in a table, a command to copy, or words."""
    links = [link.proto.label for link in app.main if link.type == "page_link"]
    tables = [column for table in app.main.dataframe for column in table.value if column == "open"]
    codes = [code.value for code in app.main.code]
    return [*links, *tables, *codes, *(text.value for text in app.main.markdown)]


def said(app: AppTest) -> str:
    """The boxes of a page that is well as far as pages go: no traceback, no bug."""
    assert [] == list(app.exception)
    text = "\n".join(boxes(app))
    assert text
    for word in ("Traceback", "This is a bug", "Error(", " nan", "None"):
        assert word not in text
    return text


@pages()
def test_a_page_has_a_title_a_question_and_an_answer(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = look(monkeypatch, Fake(), page, **HERE)
    (known,) = (each for each in PAGES if each.key == page)
    assert known.title == app.title[0].value
    assert known.question in [caption.value for caption in app.caption]
    said(app)


@pages(*ALONE)
def test_without_a_source_a_page_says_how_to_start_with_one(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = look(monkeypatch, Fake(trouble=NO_SOURCE), page)
    assert "started without a source" in said(app)
    assert "lockstep dashboard DIR" in next_steps(app)


@pages()
def test_a_source_that_refuses_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = look(monkeypatch, Fake(trouble=REFUSED), page, **HERE)
    text = said(app)
    if page not in ALONE:
        assert "403" in text
        assert any("TOKEN" in step for step in next_steps(app))


@pages()
def test_where_nothing_was_told_a_page_is_empty_in_words(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    said(look(monkeypatch, Fake(told=False, analyzed=False), page, **HERE))


@pages()
def test_a_source_without_runs_and_nodes_is_empty_in_words(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    fake = Fake(run_names=(), node_names=(), told=False, analyzed=False)
    app = look(monkeypatch, fake, page)
    text = said(app)
    assert next_steps(app) or "Open a folder of archives" in text


@pages(*NOT_OF_ONE_RUN)
def test_an_unknown_run_is_told_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = look(monkeypatch, Fake(), page, run="gpt-9")
    assert "There is no run gpt-9." in said(app)
    assert "gpt\\-1" in next_steps(app)


@pytest.mark.parametrize("page", ["node", "gpu"])
def test_an_unknown_node_is_told_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = look(monkeypatch, Fake(), page, run="gpt-1", node="node-9", gpu="0")
    assert "node-9" in said(app)
    assert "node\\-1" in next_steps(app)


@pages(*ALONE)
def test_a_stale_source_is_told_and_its_values_stay(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = look(monkeypatch, Fake(live=True, age=400.0), page, **HERE, refresh="0")
    text = said(app)
    assert "The newest number is 7 min old" in text
    assert len(boxes(app)) > 1


@pages(*ALONE)
def test_a_part_of_the_nodes_is_told_as_a_part(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    fake = Fake(live=True, silent=("node-1",), missing=("XIDs",))
    app = look(monkeypatch, fake, page, **HERE, refresh="0")
    # Now has it in its own sentence.
    assert ("1 of 2 nodes do not answer" if page == "now" else "1 of 2 nodes answer") in said(app)
    assert any("Not found\\: XIDs" in caption.value for caption in app.caption)


@pages()
def test_a_range_of_a_year_is_no_trouble(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    words = HERE | {"from": "now-1y", "to": "now"}
    said(look(monkeypatch, Fake(live=True), page, **words, refresh="0"))


@pytest.mark.sweep
@pages(*ALONE)
@pytest.mark.parametrize(
    "words", [{"from": "now", "to": "now-1h"}, {"gpu": "x"}, {"from": "soon"}, {"run": "x" * 5000}]
)
def test_a_mistyped_address_is_told(
    monkeypatch: pytest.MonkeyPatch, page: str, words: dict[str, str]
) -> None:
    app = look(monkeypatch, Fake(), page, **words)
    said(app)
    assert next_steps(app)


@pages()
def test_a_run_that_nobody_analyzed_is_told_with_the_command(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = look(monkeypatch, Fake(analyzed=False), page, **HERE)
    text = said(app)
    if page in ("run", "straggler"):
        assert "lockstep analyze" in text + "\n".join(next_steps(app))
