"""Runs: what ran, how did it end, what changed between them, and where did the time go?"""

import hashlib
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from lockstep.analyzer.report.sections.comparison import differing
from lockstep.dashboard import comparison
from lockstep.dashboard.address import Location, link, utc
from lockstep.dashboard.comparison import MOST
from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import lines, matrix
from lockstep.dashboard.figures.charts import Other
from lockstep.dashboard.figures.ledger import ledger
from lockstep.dashboard.figures.matrix import same_range
from lockstep.dashboard.figures.phases import phases_beside
from lockstep.dashboard.shapes import LedgerRow, Lines, RunRow, Severity, Span
from lockstep.dashboard.widgets import choices, starting
from lockstep.dashboard.widgets.choices import choice, pick
from lockstep.dashboard.widgets.links import link_to
from lockstep.dashboard.widgets.markup import plain
from lockstep.dashboard.widgets.shown import part, picture, sentence, table
from lockstep.dashboard.words import compared
from lockstep.dashboard.words.run_table import (
    ORDERS,
    STATES,
    STATUSES,
    Wish,
    frame,
    headline,
    wished,
)
from lockstep.dashboard.words.run_table import sentence as answer

PAIR = 2
AXES = {"relative": "since the start", "step": "step"}
RUNS_AT_MOST = 200
"""Newest runs that can be chosen."""
FORMATS = {
    **dict.fromkeys(compared.RATIOS, st.column_config.NumberColumn(format="percent")),
    **dict.fromkeys(("a", "b"), st.column_config.NumberColumn(format="%.4g")),
    **dict.fromkeys(("effect", "p"), st.column_config.NumberColumn(format="%.2g")),
}
OF_MANY = {
    **dict.fromkeys(("against a", "at least", "at most"),
                    st.column_config.NumberColumn(format="percent")),
    **dict.fromkeys(("step (s)", "last loss", "lost (GPU-h)"),
                    st.column_config.NumberColumn(format="%.4g")),
}  # fmt: skip
SETTINGS = ("setting", "a", "b")
VIEWS = {"": "All runs", "compare": "Compare", "ledger": "Where the time went"}


def show(context: Context) -> None:
    """Draws the page."""
    choice("Show", "view", VIEWS, context.location.view)
    {"compare": _compare, "ledger": _ledger}.get(context.location.view, _list)(context)


def _list(context: Context) -> None:
    every = context.source.runs()
    wish = Wish(*(choices.word(name) for name in ("q", "state", "verdict", "order")))
    rows_shown = wished(every, wish)
    text, severity = answer(every, rows_shown)
    sentence(text, severity)
    starting.waiting(context.settings.api)
    if not every:
        st.caption("Start one, then look again:")
        st.code("lockstep run gpt", language=None)
        return
    _filters()
    if not rows_shown:
        return
    st.caption(f"Tick a run to open it, two to {MOST} to compare them.")
    key = hashlib.sha256(repr(wish).encode()).hexdigest()[:8]
    ticked = choices.ticked(
        frame(rows_shown, context.location), f"runs-{key}",
        "Every run with its ending and its verdict.", links=("open", "report"),
    )  # fmt: skip
    rows = [rows_shown[row] for row in ticked]
    _links(rows)
    if len(rows) == 1:
        starting.run_actions(context.settings.api, rows[0].run)


def _filters() -> None:
    left, *others = st.columns([2, 1, 1, 1])
    with left:
        choices.text("Find", "q", "a name, a tag, a workload, a word of the verdict")
    for column, (label, name, options, unset) in zip(
        others,
        (
            ("State", "state", STATES, "any"),
            ("Verdict", "verdict", STATUSES, "any"),
            ("Order", "order", tuple(ORDERS)[1:], next(iter(ORDERS))),
        ),
        strict=True,
    ):
        with column:
            choices.pick(label, name, options, unset)


def _links(rows: list[RunRow]) -> None:
    """What can be done with the ticked runs."""
    if len(rows) > MOST:
        st.caption(f"{len(rows)} runs are ticked; up to {MOST} can be compared.")
        return
    # The oldest one is what the others are compared with.
    ordered = sorted(rows, key=lambda row: row.span.start)
    if len(rows) > PAIR:
        a, b, *more = (row.run for row in ordered)
        link_to(f"Compare these {len(rows)}", "runs", Location(a=a, b=b, more=",".join(more)),
                view="compare")  # fmt: skip
        return
    with st.container(horizontal=True):
        for row in rows:
            link_to(f"Run {row.run}", "run", Location(run=row.run))
        if len(rows) == 1:
            link_to("Its report", "run", Location(run=rows[0].run), view="report")
        if len(rows) == PAIR:
            older, newer = ordered
            link_to("Compare both", "runs", Location(a=older.run, b=newer.run), view="compare")
    for row in rows:
        if row.sentence:
            st.caption(f"{plain(row.run)}: {plain(row.sentence)}")


def _compare(context: Context) -> None:
    """What changed between two runs, or up to MOST."""
    known = [row.run for row in context.source.runs()[:RUNS_AT_MOST]]
    location = context.location
    left, right = st.columns(2)
    with left:
        pick("a", "a", _with(known, location.a), "not chosen")
    with right:
        pick("b, held against a", "b", _with(known, location.b), "not chosen")
    if not (location.a and location.b) or location.a == location.b:
        sentence(_choose(known, location.a, location.b), Severity.NOTE)
        return
    more = _more(known, location)
    a, b = context.source.run(location.a), context.source.run(location.b)
    if more:
        _many(context, [a, b, *(context.source.run(name) for name in more)])
    _compared(context, a, b)


def _more(known: list[str], location: Location) -> list[str]:
    """The field of further runs, which is a word of the address; those that are chosen."""
    free = [name for name in known if name not in (location.a, location.b) and "," not in name]
    if not free:
        return []
    chosen = [name for name in dict.fromkeys(location.more.split(",")) if name in free]
    st.session_state["pick-more"] = chosen[: comparison.MOST - 2]

    def say() -> None:
        words = ",".join(st.session_state["pick-more"])
        if words:
            st.query_params["more"] = words
        else:
            st.query_params.pop("more", None)

    st.multiselect(
        "Others against a", free, key="pick-more", max_selections=comparison.MOST - 2,
        on_change=say, placeholder="up to six more runs",
    )  # fmt: skip
    return chosen[: comparison.MOST - 2]


def _many(context: Context, rows: list[RunRow]) -> None:
    """All runs beside each other; below, b against a in full."""
    charts = [context.source.run_lines(row.run, row.span) for row in rows]
    frame = comparison.table(rows, charts)
    st.subheader(f"{len(rows)} runs", anchor=False)
    st.markdown(f"**{plain(comparison.answer(frame))}**")
    frame["open"] = [link("run", context.location, run=row.run, a="", b=rows[0].run, more="")
                     for row in rows]  # fmt: skip
    table(frame, "runs", "Every run, its step time against that of a.", columns=OF_MANY,
          links=("open",))  # fmt: skip
    overlaid = comparison.overlaid(charts)
    if overlaid:
        title = "All runs, by steps since each began"
        picture(lines.stack(overlaid, (), None, "step", title=title), "all-runs")
    st.subheader("b against a", anchor=False)


def _compared(context: Context, a: RunRow, b: RunRow) -> None:
    source = context.source
    one, other = source.run_lines(a.run, a.span), source.run_lines(b.run, b.span)
    ranks = part(lambda: (source.ranks(a.run, a.span), source.ranks(b.run, b.span)))
    measures = comparison.measures(one, other)
    step = next((measure for measure in measures if measure.chart == "step"), None)
    nodes = phases = None
    if ranks is not None:
        nodes, phases = comparison.nodes(*ranks), comparison.phases(*ranks)
    moved = () if ranks is None or phases is None else comparison.moved(phases, *ranks)
    works = (f"{a.workload} {a.layout}".strip(), f"{b.workload} {b.layout}".strip())
    said = compared.answer(step, moved, nodes, works)
    sentence(said.text, said.severity)
    _who(context, a, b)
    _settings(context, a, b)
    _measures(measures, one, other)
    _curves(context, a, b, one, other)
    if phases is not None:
        picture(phases_beside(phases), "phases")
    if nodes is not None:
        _nodes(nodes)
    _maps(context, a, b)


def _who(context: Context, a: RunRow, b: RunRow) -> None:
    frame = pd.DataFrame(
        {
            "which": ["a", "b"],
            "run": [a.run, b.run],
            "start": [utc(a.span.start), utc(b.span.start)],
            "workload": [a.workload, b.workload],
            "layout": [a.layout, b.layout],
            "nodes": [a.nodes, b.nodes],
            "ranks": [a.ranks, b.ranks],
            "verdict": [a.status or "not analyzed", b.status or "not analyzed"],
            "says": [a.sentence or "", b.sentence or ""],
        }
    )
    table(frame, "both-runs", "The two runs.")
    with st.container(horizontal=True):
        link_to("Swap a and b", "runs", context.location, view="compare", a=b.run, b=a.run)
        link_to("Open a", "run", context.location, run=a.run, a="", b="")
        link_to("Open b with a as its baseline", "run", context.location, run=b.run, a="", b=a.run)


def _settings(context: Context, a: RunRow, b: RunRow) -> None:
    st.subheader("Settings that differ", anchor=False)
    specs = part(lambda: (context.source.spec(a.run), context.source.spec(b.run)))
    if specs is None:
        return
    rows = differing(*specs)
    if not rows:
        st.caption("None: both runs had the same settings.")
        return
    frame = pd.DataFrame(rows, columns=list(SETTINGS)).fillna("–")
    table(frame, "settings", "Of run.json, only what differs.")


def _measures(
    measures: tuple[comparison.Measure, ...], one: tuple[Lines, ...], other: tuple[Lines, ...]
) -> None:
    st.subheader("What was measured", anchor=False)
    names = [[chart.title for chart in charts if chart.values] for charts in (one, other)]
    if measures:
        st.caption(plain(compared.HOW))
        table(compared.table(measures), "measured", "Every line of both runs: medians, their ratio"
              " with its interval, and whether the difference is certain.",
              columns=FORMATS)  # fmt: skip
    else:
        st.caption("The two runs have no measurement in common.")
    thinned = sorted({chart.sampling for chart in (*one, *other) if chart.sampling})
    for note in (*thinned, compared.missing(*names)):
        if note:
            st.caption(plain(note))


def _curves(
    context: Context, a: RunRow, b: RunRow, one: tuple[Lines, ...], other: tuple[Lines, ...]
) -> None:
    choice("x axis", "axis", AXES, context.location.axis)
    kind = context.location.axis if context.location.axis in AXES else "relative"
    begin, other_begin = _begin(one, a.span), _begin(other, b.span)
    longest = max(a.span.end - begin, b.span.end - other_begin)
    shown = lines.stack(
        one, (), Span(begin, begin + longest), kind, Other(other, "b", other_begin),
        "Curves: a as drawn, b dashed",
    )  # fmt: skip
    picture(shown, "curves")


def _begin(charts: tuple[Lines, ...], span: Span) -> float:
    """The first step: how long a run took to start is no part of its course."""
    first = [chart.times[0] for chart in charts if chart.key == "step" and len(chart.times)]
    return float(first[0]) if first else span.start


def _nodes(nodes: comparison.Nodes) -> None:
    st.subheader("Nodes", anchor=False)
    if not (nodes.only_a or nodes.only_b):
        st.caption(f"Both ran on the same {nodes.both} nodes.")
        return
    rows = [("only a", name) for name in nodes.only_a]
    rows += [("only b", name) for name in nodes.only_b]
    st.caption(f"{nodes.both} nodes are the same.")
    table(pd.DataFrame(rows, columns=["in", "node"]), "nodes", "Nodes that only one run had.")


def _maps(context: Context, a: RunRow, b: RunRow) -> None:
    source = context.source
    times = part(lambda: [source.rank_times(row.run, row.span) for row in (a, b)])
    if times is None:
        return
    st.subheader("Ranks, in the same colours", anchor=False)
    axis = "step" if context.location.axis == "step" else "time"
    pair = same_range(*(matrix.matrix(each, axis=axis) for each in times))
    for column, name, shown in zip(st.columns(2), ("a", "b"), pair, strict=True):
        with column:
            st.caption(name)
            picture(shown, f"ranks-{name}")


def _with(known: list[str], chosen: str) -> list[str]:
    return known if not chosen or chosen in known else [*known, chosen]


def _choose(known: list[str], a: str, b: str) -> str:
    if len(known) < 2:
        return "Comparing needs two runs, and this source knows fewer. Open a folder of archives."
    if a and a == b:
        return "a and b are the same run; choose another one for b."
    return "Choose two runs: a, and b that is held against it."


def _ledger(context: Context) -> None:
    """Where the time of the runs went, and what was lost to whom."""
    run = context.location.run
    with st.spinner("Where the time went is worked out from all that is recorded."):
        rows = context.source.ledgers(context.span, run)
    said = headline(rows, run)
    sentence(said.text, said.severity)
    if said.command:
        st.code(said.command, language=None)
    if not rows:
        return
    picture(ledger(rows), "ledger")
    st.subheader("Each run", anchor=False)
    table(_ledger_table(rows), "ledger-runs", "Each run: what was useful, and the largest loss.",
          columns={"useful": st.column_config.NumberColumn(format="percent"),
                   "rank-hours": st.column_config.NumberColumn(format="%.3g")})  # fmt: skip
    began = _starts(rows)
    if not began.empty:
        st.subheader("What starting was, in rank-seconds", anchor=False)
        st.caption("Empty: this part was not measured. Its time, if any, is in the last column.")
        table(began, "ledger-starting", "What starting was, in rank-seconds.",
              columns={name: st.column_config.NumberColumn(format="%.3g")
                       for name in began.columns if name != "run"})  # fmt: skip
    _not_known(rows)


def _starts(rows: Sequence[LedgerRow]) -> pd.DataFrame:
    """A column a part, of the runs of which it is told."""
    return pd.DataFrame([{"run": row.run, **row.starting} for row in rows if row.starting])


def _ledger_table(rows: Sequence[LedgerRow]) -> pd.DataFrame:
    cells = [
        (row.run, row.team, row.attempts, row.rank_seconds / 3600,
         row.useful / row.rank_seconds if row.rank_seconds > 0 else None, row.sentence,
         row.known_from, ", ".join(row.provenance))
        for row in rows
    ]  # fmt: skip
    columns = ["run", "team", "attempts", "rank-hours", "useful", "in words", "known from",
               "not real"]  # fmt: skip
    return pd.DataFrame(cells, columns=columns)


def _not_known(rows: Sequence[LedgerRow]) -> None:
    sentences = dict.fromkeys(f"{sentence}." for row in rows for sentence in row.missing)
    if sentences:
        with st.expander(f"What is unknown ({len(sentences)})"):
            for each in sentences:
                st.caption(plain(each))
