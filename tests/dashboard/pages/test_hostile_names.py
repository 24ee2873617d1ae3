"""Runs and nodes named by somebody who means harm: text, on every page."""

import pytest
from streamlit.testing.v1 import AppTest

from lockstep.dashboard.pages.registry import MOVED, PAGES
from tests.dashboard.apps import boxes, look
from tests.dashboard.fakes import Fake

PARTS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "![x](http://evil.example/x.png)",
    "$$\\frac{1}{0}$$",
    ":material/home:",
    ":red[x]",
    "`a` | *b* | _c_",
)
NAME = " ".join(PARTS[:4])[:199]
OTHER = " ".join(PARTS[4:]) + "\n\u202ebackwards \U0001f600"
LONG = "x" * 5000
READS_MARKUP = (
    "badge", "button", "caption", "checkbox", "download_button", "error", "expander", "header",
    "info", "link_button", "markdown", "metric", "page_link", "radio", "subheader", "success",
    "tab", "title", "toggle", "warning",
)  # fmt: skip
"""Elements whose text or label Streamlit reads as Markdown."""


def markup(app: AppTest) -> list[str]:
    """Everything on a page that Streamlit reads as Markdown."""
    texts = []
    for element in (*app.main, *app.sidebar):
        if element.type in READS_MARKUP:
            proto = element.proto
            texts += [getattr(proto, name, "") for name in ("body", "label", "help")]
    return [text for text in texts if isinstance(text, str)]


def figures(app: AppTest) -> list[str]:
    return [chart.proto.spec for chart in app.main.get("plotly_chart")]


def not_a_bug(app: AppTest) -> bool:
    return not app.exception and "This is a bug" not in "\n".join(boxes(app))


@pytest.mark.parametrize("page", [*(page.key for page in PAGES), *MOVED])
def test_a_name_is_never_markup(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    fake = Fake(run_names=(NAME, OTHER), node_names=(OTHER, NAME))
    words = {"run": NAME, "node": OTHER, "a": NAME, "b": OTHER}
    words |= {} if page == "node" else {"gpu": "1", "rank": "1"}
    app = look(monkeypatch, fake, page, **words)
    assert not_a_bug(app)
    assert [] == [text for text in markup(app) for part in PARTS if part in text]
    for spec in figures(app):
        assert "<script" not in spec
        assert "<img" not in spec


@pytest.mark.parametrize("page", [page.key for page in PAGES])
def test_a_name_of_five_kilobytes_is_cut(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    app = look(monkeypatch, Fake(run_names=(LONG,), node_names=(LONG, "node-1")), page)
    assert not_a_bug(app)
    assert [] == [text[:50] for text in markup(app) if LONG in text]


def test_the_test_sees_a_name_that_is_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(node_names=(NAME, "n")), "node", node=NAME)
    escaped = [text for text in markup(app) if "javascript" in text.replace("\\", "")]
    assert escaped
