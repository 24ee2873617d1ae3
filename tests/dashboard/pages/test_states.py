"""Every page in every state: a sentence and a next step, never a traceback."""

import pytest
from streamlit.testing.v1 import AppTest

from lockstep.dashboard.pages.registry import PAGES
from lockstep.dashboard.trouble import Kind, TroubleError
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
HERE = {"run": "gpt-1", "node": "node-0", "rank": "1", "a": "gpt-1", "b": "gpt-0"}
OF_A_NODE = HERE | {"rank": ""}
VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    "node": ("node", OF_A_NODE), "gpu": ("node", HERE | {"gpu": "1"}),
    "report": ("run", HERE | {"view": "report"}), "compare": ("runs", HERE | {"view": "compare"}),
    "ledger": ("runs", HERE | {"view": "ledger"}), "help": ("health", HERE | {"view": "help"}),
}  # fmt: skip
"""Name -> page and address, of what has an address other than HERE."""
ALONE = ("help", "start")
"""What says the same whatever the source is."""
NOT_OF_ONE_RUN = ("compare", *ALONE)


def pages(*without: str) -> pytest.MarkDecorator:
    names = dict.fromkeys([*(page.key for page in PAGES), *VIEWS])
    return pytest.mark.parametrize("page", [name for name in names if name not in without])


def at(
    patch: pytest.MonkeyPatch, given: Fake, name: str, here: bool = True, **words: str
) -> AppTest:
    """A page or view by its name; not `here` = with no run, node or rank chosen."""
    page, address = VIEWS.get(name, (name, HERE))
    address = address if here else {key: address[key] for key in address if key == "view"}
    return look(patch, given, page, **(address | words))


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
    app = at(monkeypatch, Fake(), page)
    key = VIEWS.get(page, (page, HERE))[0]
    (known,) = (each for each in PAGES if each.key == key)
    assert known.title == app.title[0].value
    assert known.question in [caption.value for caption in app.caption]
    said(app)


@pages(*ALONE)
def test_without_a_source_a_page_says_how_to_start_with_one(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = at(monkeypatch, Fake(trouble=NO_SOURCE), page, here=False)
    assert "started without a source" in said(app)
    assert "lockstep dashboard DIR" in next_steps(app)


@pages()
def test_a_source_that_refuses_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = at(monkeypatch, Fake(trouble=REFUSED), page)
    text = said(app)
    if page not in ALONE:
        assert "403" in text
        assert any("TOKEN" in step for step in next_steps(app))


@pages()
def test_where_nothing_was_told_a_page_is_empty_in_words(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    said(at(monkeypatch, Fake(told=False, analyzed=False), page))


@pages()
def test_a_source_without_runs_and_nodes_is_empty_in_words(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    fake = Fake(run_names=(), node_names=(), told=False, analyzed=False)
    app = at(monkeypatch, fake, page, here=False)
    text = said(app)
    assert next_steps(app) or "Open a folder of archives" in text


@pages(*NOT_OF_ONE_RUN)
def test_an_unknown_run_is_told_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = at(monkeypatch, Fake(), page, run="gpt-9")
    assert "There is no run gpt-9." in said(app)
    assert "gpt\\-1" in next_steps(app)


@pytest.mark.parametrize("gpu", ["", "0"])
def test_an_unknown_node_is_told_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch, gpu: str
) -> None:
    app = look(monkeypatch, Fake(), "node", run="gpt-1", node="node-9", gpu=gpu)
    assert "node-9" in said(app)
    assert "node\\-1" in next_steps(app)


@pages(*ALONE)
def test_a_stale_source_is_told_and_its_values_stay(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = at(monkeypatch, Fake(live=True, age=400.0), page, refresh="0")
    text = said(app)
    assert "The newest number is 7 min old" in text
    assert len(boxes(app)) > 1


@pages(*ALONE)
def test_a_part_of_the_nodes_is_told_as_a_part(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    fake = Fake(live=True, silent=("node-1",), missing=("XIDs",))
    app = at(monkeypatch, fake, page, refresh="0")
    # Now has it in its own sentence.
    assert ("1 of 2 nodes do not answer" if page == "now" else "1 of 2 nodes answer") in said(app)
    assert any("Not found\\: XIDs" in caption.value for caption in app.caption)


@pages()
def test_a_range_of_a_year_is_no_trouble(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    words = {"from": "now-1y", "to": "now", "refresh": "0"}
    said(at(monkeypatch, Fake(live=True), page, **words))


@pytest.mark.sweep
@pages(*ALONE)
@pytest.mark.parametrize(
    "words", [{"from": "now", "to": "now-1h"}, {"gpu": "x"}, {"from": "soon"}, {"run": "x" * 5000}]
)
def test_a_mistyped_address_is_told(
    monkeypatch: pytest.MonkeyPatch, page: str, words: dict[str, str]
) -> None:
    app = at(monkeypatch, Fake(), page, here=False, **words)
    said(app)
    assert next_steps(app)


@pages()
def test_a_run_that_nobody_analyzed_is_told_with_the_command(
    monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    app = at(monkeypatch, Fake(analyzed=False), page)
    text = said(app)
    if page in ("run", "straggler"):
        assert "lockstep analyze" in text + "\n".join(next_steps(app))
