"""Run: does it converge, how fast, what does the hardware cost it, and what happened?"""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from lockstep.dashboard.address import Location, link
from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import lane, lines
from lockstep.dashboard.figures.charts import Other
from lockstep.dashboard.shapes import Event, Lines, Matrix, RunRow, Severity
from lockstep.dashboard.starting.process import remake, why_not
from lockstep.dashboard.trouble import TroubleError
from lockstep.dashboard.widgets import shown
from lockstep.dashboard.widgets.choices import choice, pick
from lockstep.dashboard.widgets.links import link_to
from lockstep.dashboard.widgets.markup import capital, plain
from lockstep.dashboard.widgets.notes import run_notes
from lockstep.dashboard.widgets.shown import later, part, picture, sentence, table
from lockstep.dashboard.words import run_page, verdict
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

AXES = {"": "time (UTC)", "step": "step", "relative": "since the start"}
SLOWEST = 5
RUNS_AT_MOST = 200
"""Newest runs that can be laid under this one."""
BEFORE, AFTER = 60.0, 120.0
"""Seconds around an event that its link shows."""
PERCENT = st.column_config.NumberColumn(format="percent")
MILLISECONDS = 1000.0


REPORT = FILES[0][0]
REPORT_PIXELS = 900
PROBLEM = "reports-problem"
"""In the session: why the last report was not made."""
VIEWS = {"": "Charts", "report": "Report"}


def show(context: Context) -> None:
    """Draws the page."""
    choice("Show", "view", VIEWS, context.location.view)
    (_report if context.location.view == "report" else _overview)(context)


def _overview(context: Context) -> None:
    source, run = context.source, context.location.run
    row, told = source.run(run), source.verdict(run)
    said = verdict.headline(told, row, live=context.answer.live)
    sentence(said.text, said.severity)
    if said.command:
        st.code(said.command, language="bash")
    if row.command:
        st.caption(plain(f"Started by: {row.command}"))
    gain, method = run_page.gain(told)
    if gain:
        st.markdown(f"**{plain(gain)}**")
    if method:
        st.caption(plain(method))
    run_notes(source.folder(run), context.settings)
    charts = source.run_lines(run, context.span)
    shown.number_row(run_page.numbers(row, told, charts), "run")
    events = part(lambda: source.events(context.span, run)) or ()
    _stack(context, charts, events)
    _slowest(context)
    _events(context, events)
    with st.container(horizontal=True):
        link_to("Who is late, and why", "straggler", context.location)
        link_to("Collectives", "collectives", context.location)
        link_to("Report", "run", context.location, view="report")
        link_to("Compare with another run", "runs", context.location, view="compare",
                a=context.location.b, b=run)  # fmt: skip


def _stack(context: Context, charts: Sequence[Lines], events: Sequence[Event]) -> None:
    location = context.location
    left, right = st.columns(2)
    with left:
        choice("x axis", "axis", AXES, location.axis)
    with right:
        newest = context.source.runs()[:RUNS_AT_MOST]
        others = [row.run for row in newest if row.run != location.run]
        if location.b and location.b not in (*others, location.run):
            others.append(location.b)
        chosen = pick("Baseline, dashed", "b", others, "none") if others else ""
    other = part(lambda: _other(context, chosen)) if chosen else None
    picture(
        lines.stack(charts, events, context.span, location.axis or "time", other), "model-and-node"
    )


def _other(context: Context, run: str) -> Other:
    row: RunRow = context.source.run(run)
    return Other(context.source.run_lines(run, row.span), "baseline", row.span.start)


def _slowest(context: Context) -> None:
    ranks = part(lambda: context.source.ranks(context.location.run, context.span))
    if ranks is None or ranks.empty:
        return
    st.subheader("Slowest ranks, medians of the range", anchor=False)
    few = ranks.head(SLOWEST)
    frame = pd.DataFrame(
        {
            "open": [_to_rank(context.location, row) for row in few.to_dict("records")],
            "rank": few["rank"],
            "node": few["node"],
            "GPU": few["gpu"],
            "own time over its stage (×)": few["slowdown"].round(3),
            "own time per step (ms)": (few["own_seconds"] * MILLISECONDS).round(2),
            "waits": few["wait_share"],
        }
    )
    if note := ranks.attrs.get("note"):
        st.caption(plain(capital(f"{note}.")))
    table(frame, "slowest-ranks", f"The {len(frame)} ranks that need the longest for their own"
          " work, the slowest first.", columns={"waits": PERCENT}, links=("open",))  # fmt: skip


def _to_rank(location: Location, row: dict[Any, Any]) -> str:
    gpu = row["gpu"]
    if pd.isna(gpu) or int(gpu) < 0:
        return link("straggler", location, rank=int(row["rank"]))
    return link("node", location, node=str(row["node"]), gpu=int(gpu), rank=int(row["rank"]))


def _events(context: Context, events: Sequence[Event]) -> None:
    if not events:
        st.caption("No event was reported in this range: no XID, no throttling, no link event,"
                   " no checkpoint, no finding.")  # fmt: skip
        return
    # The chart has a lane of them; the table is for who wants to go to one.
    later(f"Events in this range: {len(events):,}", "events-open",
          lambda: _event_table(context, events))  # fmt: skip


def _event_table(context: Context, events: Sequence[Event]) -> None:
    frame = lane.table(events)
    frame.insert(0, "open", [_to_event(context.location, event) for event in events])
    table(frame, "events", "Everything that happened in this range, in the order of time.",
          links=("open",))  # fmt: skip


def _to_event(location: Location, event: Event) -> str:
    around = {
        "since": str(int((event.at - BEFORE) * MILLISECONDS)),
        "until": str(int(((event.until or event.at) + AFTER) * MILLISECONDS)),
    }
    if event.node and event.gpu is not None:
        return link("node", location, node=event.node, gpu=event.gpu, rank=event.rank, **around)
    if event.node:
        return link("node", location, node=event.node, gpu=None, rank=None, **around)
    return link("straggler" if event.kind == "finding" else "run", location, **around)


def _report(context: Context) -> None:
    """The post-mortem, for people who were not there: shown, downloaded, or made."""
    run = context.location.run
    places = _places(context, run)
    if not places:
        sentence(f"There is no archive of {run} here, so there is no report.", Severity.NOTE)
        st.caption("Reports are made of archives; open one:")
        st.code("lockstep dashboard DIR", language=None)
        return
    name = _chosen(context, places)
    report = files(places[name])
    text, severity = answer(name, report)
    sentence(text, severity)
    if problem := st.session_state.pop(PROBLEM, ""):
        sentence(problem, Severity.WARNING)
    _remaking(context, report)
    _downloads(context, run, report)
    if report.written is not None:
        _sealed_page(report)


def _places(context: Context, run: str) -> dict[str, Path]:
    """Title -> folder: of the run, then of what was found in it while it went on."""
    folder = context.source.folder(run)
    if folder is None:
        return {}
    places = {run: folder}
    for row in context.source.findings(context.span, run):
        folder_of_finding = beside(folder, row.finding)
        if folder_of_finding is not None and folder_of_finding != folder:
            places.setdefault(row.finding, folder_of_finding)
    return places


def _chosen(context: Context, places: dict[str, Path]) -> str:
    """Which of them; the address says it."""
    wanted = context.location.finding
    now = wanted if wanted in places else next(iter(places))
    if len(places) > 1:
        st.caption("Post-mortems of the run and of what was found in it")
        for title, folder in places.items():
            label = folder.name if title != context.location.run else title
            here = title == now
            link_to(
                f"{label} (shown)" if here else label, "run", context.location, view="report",
                finding=title if title != context.location.run else "",
            )  # fmt: skip
    return now


def _remaking(context: Context, report: Files) -> None:
    command = f"lockstep report {shlex.quote(str(report.folder))}"
    reason = why_not(context.settings.runs, report.folder)
    missing = report.written is None
    if reason:
        with st.expander("Make it" if missing else "Make it again", expanded=missing):
            st.caption(plain(f"{reason} On the command line:"))
            st.code(command, language=None, wrap_lines=True)
        return
    if st.button(
        "Make the report" if missing else "Make it again", key="reports-remake",
        icon=":material/refresh:", type="primary" if missing else "secondary",
        help="Analyzes the run again. What people wrote into report.md stays.",
    ):  # fmt: skip
        with st.spinner("The run is analyzed, and its report written."):
            st.session_state[PROBLEM] = remake(report.folder)
        st.rerun()


def _downloads(context: Context, run: str, report: Files) -> None:
    with st.container(horizontal=True):
        for name, label, kind in FILES:
            if name in report.sizes:
                st.download_button(
                    label, data=_reader(report.folder / name), file_name=name, mime=kind,
                    key=f"reports-{name}", icon=":material/download:", on_click="ignore",
                )  # fmt: skip
        st.download_button(
            "Windows as CSV", data=lambda: _windows_csv(context, run), file_name="windows.csv",
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


def _windows_csv(context: Context, run: str) -> bytes:
    try:
        matrix: Matrix = context.source.rank_times(run, context.span)
    except TroubleError as trouble:
        return f"# {trouble.sentence}\n".encode()
    return windows(matrix).to_csv(index=False).encode()


def _sealed_page(report: Files) -> None:
    try:
        address = sealed(content(report.folder / REPORT))
    except OSError as error:
        sentence(f"{REPORT} cannot be read: {error.strerror}.", Severity.CRITICAL)
        return
    if not address:
        sentence(
            f"{REPORT} holds what no report of ours holds, or is too large, so it is not shown"
            " here. Make it again.", Severity.WARNING,
        )  # fmt: skip
        return
    st.iframe(
        address, height=REPORT_PIXELS, alt="The post-mortem: verdict, impact, timeline, cause"
    )
