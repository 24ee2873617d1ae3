"""Reports: what happened, for people who were not there?"""

import shlex
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from lockstep.dashboard.context import Context
from lockstep.dashboard.shapes import Matrix, Severity
from lockstep.dashboard.starting.remaking import remake, why_not
from lockstep.dashboard.trouble import TroubleError
from lockstep.dashboard.widgets.shown import link_to, plain, sentence
from lockstep.dashboard.words.report_file import (
    FILES,
    Files,
    beside,
    content,
    files,
    sealed,
    windows,
)
from lockstep.dashboard.words.report_file import sentence as answer

PAGE = FILES[0][0]
PAGE_PIXELS = 900
PROBLEM = "reports-problem"
"""In the session: why the last report was not made."""


def show(context: Context) -> None:
    """Draws the page."""
    run = context.place.run
    places = _places(context, run)
    if not places:
        sentence(f"There is no archive of {run} here, so there is no report.", Severity.NOTE)
        st.caption("Reports are made of archives; open one:")
        st.code("lockstep dashboard DIR", language=None)
        return
    name = _chosen(context, places)
    found = files(places[name])
    text, severity = answer(name, found)
    sentence(text, severity)
    if problem := st.session_state.pop(PROBLEM, ""):
        sentence(problem, Severity.WARNING)
    _remaking(context, found)
    _downloads(context, run, found)
    if found.written is not None:
        _page(found)


def _places(context: Context, run: str) -> dict[str, Path]:
    """Title -> folder: of the run, then of what was found in it while it went on."""
    folder = context.source.folder(run)
    if folder is None:
        return {}
    places = {run: folder}
    for row in context.source.findings(context.span, run):
        found = beside(folder, row.finding)
        if found is not None and found != folder:
            places.setdefault(row.finding, found)
    return places


def _chosen(context: Context, places: dict[str, Path]) -> str:
    """Which of them; the address says it."""
    wanted = context.place.finding
    now = wanted if wanted in places else next(iter(places))
    if len(places) > 1:
        st.caption("Post-mortems of the run and of what was found in it")
        for title, folder in places.items():
            label = folder.name if title != context.place.run else title
            here = title == now
            link_to(
                f"{label} (shown)" if here else label, "reports", context.place,
                finding=title if title != context.place.run else "",
            )  # fmt: skip
    return now


def _remaking(context: Context, found: Files) -> None:
    command = f"lockstep report {shlex.quote(str(found.folder))}"
    reason = why_not(context.settings.runs, found.folder)
    missing = found.written is None
    if reason:
        with st.expander("Make it" if missing else "Make it again", expanded=missing):
            st.caption(plain(f"{reason} On the command line:"))
            st.code(command, language=None, wrap_lines=True)
        return
    if st.button(
        "Make the report" if missing else "Make it again", key="reports-remake",
        icon=":material/refresh:", type="primary" if missing else "secondary",
        help="Analyzes the run anew. What people wrote into report.md stays.",
    ):  # fmt: skip
        with st.spinner("The run is analyzed, and its report written."):
            st.session_state[PROBLEM] = remake(found.folder)
        st.rerun()


def _downloads(context: Context, run: str, found: Files) -> None:
    with st.container(horizontal=True):
        for name, label, kind in FILES:
            if name in found.sizes:
                st.download_button(
                    label, data=_reader(found.folder / name), file_name=name, mime=kind,
                    key=f"reports-{name}", icon=":material/download:", on_click="ignore",
                )  # fmt: skip
        st.download_button(
            "Windows as CSV", data=lambda: _windows(context, run), file_name="windows.csv",
            mime="text/csv", key="reports-windows", icon=":material/download:", on_click="ignore",
        )  # fmt: skip
    st.caption("As PDF: open the HTML file in a browser and print it; the page has a print layout.")


def _reader(path: Path) -> Callable[[], bytes]:
    """Reads a file when it is asked for, not when the page is drawn."""

    def read() -> bytes:
        try:
            return content(path)
        except OSError as error:
            return f"{path.name} cannot be read: {error.strerror}\n".encode()

    return read


def _windows(context: Context, run: str) -> bytes:
    try:
        found: Matrix = context.source.rank_times(run, context.span)
    except TroubleError as trouble:
        return f"# {trouble.sentence}\n".encode()
    return windows(found).to_csv(index=False).encode()


def _page(found: Files) -> None:
    try:
        address = sealed(content(found.folder / PAGE))
    except OSError as error:
        sentence(f"{PAGE} cannot be read: {error.strerror}.", Severity.CRITICAL)
        return
    if not address:
        sentence(
            f"{PAGE} holds what no report of ours holds, or is too large, so it is not shown here."
            " Make it again.", Severity.WARNING,
        )  # fmt: skip
        return
    st.iframe(address, height=PAGE_PIXELS, alt="The post-mortem: verdict, impact, timeline, cause")
