"""What stands around every page, its style, and the one place where its troubles are caught."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, cast

import pandas as pd
import streamlit as st

from lockstep.dashboard import address
from lockstep.dashboard.address import Location, link, utc
from lockstep.dashboard.context import Context, Page, Settings
from lockstep.dashboard.protocol import Source
from lockstep.dashboard.shapes import Answer, Severity, Span
from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.dashboard.widgets import banners, choices, links, shown, sidebar
from lockstep.dashboard.widgets.markup import capital, short
from lockstep.dashboard.words.said import duration

LONGEST_TAB = 40
"""Letters of a run's or a node's name in the title of a tab."""


def draw(
    page: Page, pages: tuple[Page, ...], open_source: Callable[[], Source], settings: Settings
) -> None:
    """Draws a page in its frame; whatever goes wrong is a sentence."""
    links.entered(page.key, st.query_params.to_dict())
    place, trouble = _read()
    st.set_page_config(page_title=tab_title(page, place))
    style()
    with st.sidebar:
        sidebar.navigation(_groups(pages), place)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.title(page.title, anchor=False, width="content")
        st.caption(page.question, width="content")
    if trouble is not None:
        banners.box(trouble, page.key, place)
        return
    source = _opened(open_source, page)
    if source is None:
        return
    if not isinstance(source, _Nothing):
        with st.sidebar:
            controls = partial(sidebar.controls, page.key, source, place, settings)
            _safely(page, place, source, controls)
    _safely(page, place, source, partial(_crumbs, page, place, source, settings))
    seconds = sidebar.refresh_seconds(place, settings) if source.live else 0

    @st.fragment(run_every=seconds or None)
    def body() -> None:
        if _read()[0] != place:
            # Somebody chose something in the page, which draws only this part anew.
            st.rerun()
        _safely(page, place, source, partial(_page, page, place, source, settings))

    body()


def tab_title(page: Page, location: Location) -> str:
    """Of the browser's tab: whom it is about first, as tabs show few letters."""
    whom = location.node or location.run if page.needs != "run" else location.run
    if page.key == "node" and location.gpu is not None:
        whom = f"GPU {location.gpu} of {location.node}"
    return " · ".join(word for word in (short(whom, LONGEST_TAB), page.title, "Lockstep") if word)


def _opened(open_source: Callable[[], Source], page: Page) -> Source | None:
    """The source, or one that answers everything with why there is none."""
    try:
        return open_source()
    except TroubleError as without:
        return cast("Source", _Nothing(without))
    except Exception as error:  # noqa: BLE001 - the edge: a traceback is a bug, so say so
        banners.bug(error, page.title)
        return None


def _page(page: Page, location: Location, source: Source, settings: Settings) -> None:
    try:
        if location.run:
            source.run(location.run)  # an unknown one is told before anything is asked
        place_chosen = chosen(page.needs, page.key, source, location)
        if place_chosen is None:
            return
        context = look(source, place_chosen, settings)
        banners.draw(context, source.run(place_chosen.run) if place_chosen.run else None, page.key)
    except TroubleError:
        if location.view not in page.alone:
            raise
        context = Context(source, location, Span(0.0, 0.0), _SILENT, settings)
    page.show(context)


def _crumbs(page: Page, location: Location, source: Source, settings: Settings) -> None:
    def ranks() -> pd.DataFrame:
        return source.ranks(location.run, look(source, location, settings).span)

    links.crumbs(page.key, links.with_gpu(location, ranks) if page.key == "node" else location)


def look(source: Source, location: Location, settings: Settings) -> Context:
    """What a page is given.

    Raises:
        TroubleError: The run of the place is not known, or its range is none.
    """
    span = choices.span(source, location)
    return Context(source, location, span, source.answer(span, location.run), settings)


def _read() -> tuple[Location, TroubleError | None]:
    try:
        return address.read(st.query_params.to_dict()), None
    except TroubleError as trouble:
        return Location(), trouble


def _groups(pages: tuple[Page, ...]) -> dict[str, list[tuple[str, str, str]]]:
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for page in pages:
        groups.setdefault(page.group, []).append((page.key, page.title, page.icon))
    return groups


def _safely(page: Page, location: Location, source: Source, part: Callable[[], None]) -> None:
    try:
        part()
    except TroubleError as trouble:
        banners.box(trouble, page.key, location, _nodes(source))
    except Exception as error:  # noqa: BLE001 - the edge: a traceback is a bug, so say so
        banners.bug(error, page.title)


def _nodes(source: Source) -> tuple[str, ...]:
    try:
        return source.nodes()
    except TroubleError:
        return ()


_SILENT = Answer("no source", False, None, 0.0, math.nan, (0, 0))


class _Nothing:
    """In the place of a source that could not be opened: every question is that trouble."""

    name = "no source"
    live = False

    def __init__(self, trouble: TroubleError) -> None:
        self._trouble = trouble

    def __getattr__(self, _name: str) -> Callable[..., NoReturn]:
        def ask(*_words: Any, **_named: Any) -> NoReturn:
            raise self._trouble

        return ask


def chosen(needs: str, page: str, source: Source, location: Location) -> Location | None:
    """The place with what the page needs; None = the reader was asked.

    The only run or node that there is is taken without a question.

    Raises:
        TroubleError: There is none to choose.
    """
    if not needs or getattr(location, needs):
        return location
    known = source.nodes() if needs == "node" else tuple(row.run for row in source.runs())
    if not known:
        raise TroubleError(
            Kind.EMPTY,
            f"{capital(source.name)} knows no {needs}.",
            "Start one, then look again: `lockstep run gpt`"
            if needs == "run" else "See Data health for what answers.",
        )  # fmt: skip
    if len(known) == 1:
        return location.but(**{needs: known[0]})
    shown.sentence(f"Which {needs}? There are {len(known):,}; open one.", Severity.NOTE)
    frame = _chooser_nodes(known) if needs == "node" else _runs(source)
    frame.insert(0, "open", [link(page, location, **{needs: name}) for name in frame[needs]])
    shown.table(frame, f"choose-{needs}", f"Every {needs}, with a link.", links=("open",))
    return None


def _chooser_nodes(names: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame({"node": list(names)})


def _runs(source: Source) -> pd.DataFrame:
    rows = source.runs()
    return pd.DataFrame({
        "run": [row.run for row in rows],
        "state": [row.state for row in rows],
        "start": [utc(row.span.start) for row in rows],
        "for": [duration(row.span.seconds) for row in rows],
        "workload": [row.workload for row in rows],
        "ranks": [row.ranks for row in rows],
        "verdict": [row.status or "not analyzed" for row in rows],
    })  # fmt: skip


# What Streamlit's theme cannot say: room on top, letters that can be read, and telephones.
#
# Selectors are Streamlit's `data-testid`, which its own tests rely on; `tests/dashboard/browser`
# looks whether they still do what they are here for.

STYLE = """<style>
/* 96 and 160 pixels of nothing, and nothing in the header but the button of a closed sidebar. */
[data-testid="stMainBlockContainer"] { padding: 1rem 2.5rem 3rem; max-width: 100rem; }
[data-testid="stAppScrollToBottomContainer"] > [data-testid="stMainBlockContainer"] {
    padding-bottom: 3rem;
}
[data-testid="stHeader"] { height: 2.75rem; min-height: 2.75rem; pointer-events: none; }
[data-testid="stHeader"] button { pointer-events: auto; }
[data-testid="stApp"]:has([data-testid="stExpandSidebarButton"])
    [data-testid="stMainBlockContainer"] { padding-top: 2.75rem; }
[data-testid="stSidebarHeader"] { height: 2.25rem; margin-bottom: 0; }
[data-testid="stSidebarUserContent"] { padding-bottom: 1.5rem; }
[data-testid="stMainBlockContainer"] h1 { padding: 0; }

/* Streamlit's small print is 60 % of its ink: 3.9:1 where 4.5:1 is the least for its size. */
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] * {
    color: inherit; opacity: 1;
}
[data-testid="stCaptionContainer"] { opacity: 0.8; }

/* A number of which nothing is known is a word, and no larger than one. */
[class*="st-key-number-unknown"] [data-testid="stMetricValue"] {
    font-size: 1.25rem; line-height: 2.4; opacity: 0.8;
}
/* What a number is held against may take two lines; cut off it says nothing. */
[data-testid="stMetricDelta"], [data-testid="stMetricDelta"] * {
    white-space: normal; overflow: visible; text-overflow: clip;
}

@media (max-width: 640px) {
    [data-testid="stMainBlockContainer"] { padding: 2.75rem 1rem 2rem; }
    [data-testid="stMainBlockContainer"] h1 { font-size: 1.5rem; }
    [data-testid="stAlertContainer"] { padding: 0.6rem 0.75rem; }
    [data-testid="stAlertContainer"] p { font-size: 0.9rem; line-height: 1.4; }
    /* Numbers two in a row: one in a row is three screens of them. */
    [class*="st-key-numbers"] [data-testid="stHorizontalBlock"] { gap: 0.5rem; }
    [class*="st-key-numbers"] [data-testid="stColumn"] {
        flex: 1 1 calc(50% - 0.5rem); min-width: calc(50% - 0.5rem); width: calc(50% - 0.5rem);
    }
    [class*="st-key-numbers"] [data-testid="stMetricValue"] { font-size: 1.5rem; }
    [class*="st-key-ways"] a, [class*="st-key-ways"] button { min-height: 2.5rem; }
}
</style>"""


def style() -> None:
    """Once a page."""
    st.html(STYLE)
