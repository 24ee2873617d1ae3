"""Compare: what changed between two runs?"""

import pandas as pd
import streamlit as st

from lockstep.analyzer.report.sections.comparison import differing
from lockstep.dashboard.address import Place, link, utc
from lockstep.dashboard.comparing import many, measures, places
from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import lines, matrix
from lockstep.dashboard.figures.charts import Other
from lockstep.dashboard.figures.phases_beside import phases_beside
from lockstep.dashboard.figures.same_range import same_range
from lockstep.dashboard.shapes import Lines, RunRow, Severity, Span
from lockstep.dashboard.widgets.choices import choice
from lockstep.dashboard.widgets.parts import part
from lockstep.dashboard.widgets.picking import choice as pick
from lockstep.dashboard.widgets.shown import link_to, picture, plain, sentence, table
from lockstep.dashboard.words import compared

AXES = {"relative": "since the start", "step": "step"}
RUNS_AT_MOST = 200
"""Newest runs that can be chosen."""
FORMATS = {
    **dict.fromkeys(compared.RATIOS, st.column_config.NumberColumn(format="percent")),
    **dict.fromkeys(("a", "b"), st.column_config.NumberColumn(format="%.4g")),
    **dict.fromkeys(("effect", "p"), st.column_config.NumberColumn(format="%.2g")),
}
MANY = {
    **dict.fromkeys(("against a", "at least", "at most"),
                    st.column_config.NumberColumn(format="percent")),
    **dict.fromkeys(("step (s)", "last loss", "lost (GPU-h)"),
                    st.column_config.NumberColumn(format="%.4g")),
}  # fmt: skip
SETTINGS = ("setting", "a", "b")


def show(context: Context) -> None:
    """Draws the page."""
    known = [row.run for row in context.source.runs()[:RUNS_AT_MOST]]
    place = context.place
    left, right = st.columns(2)
    with left:
        pick("a", "a", _with(known, place.a), "not chosen")
    with right:
        pick("b, held against a", "b", _with(known, place.b), "not chosen")
    if not (place.a and place.b) or place.a == place.b:
        sentence(_choose(known, place.a, place.b), Severity.NOTE)
        return
    more = _more(known, place)
    a, b = context.source.run(place.a), context.source.run(place.b)
    if more:
        _many(context, [a, b, *(context.source.run(name) for name in more)])
    _compared(context, a, b)


def _more(known: list[str], place: Place) -> list[str]:
    """The field of further runs, which is a word of the address; those that are chosen."""
    free = [name for name in known if name not in (place.a, place.b) and "," not in name]
    if not free:
        return []
    chosen = [name for name in dict.fromkeys(place.more.split(",")) if name in free]
    st.session_state["pick-more"] = chosen[: many.MOST - 2]

    def say() -> None:
        words = ",".join(st.session_state["pick-more"])
        if words:
            st.query_params["more"] = words
        else:
            st.query_params.pop("more", None)

    st.multiselect(
        "Others against a", free, key="pick-more", max_selections=many.MOST - 2, on_change=say,
        placeholder="up to six more runs",
    )  # fmt: skip
    return chosen[: many.MOST - 2]


def _many(context: Context, rows: list[RunRow]) -> None:
    """All runs beside each other; below, b against a in full."""
    charts = [context.source.run_lines(row.run, row.span) for row in rows]
    frame = many.table(rows, charts)
    st.subheader(f"{len(rows)} runs", anchor=False)
    st.markdown(f"**{plain(many.answer(frame))}**")
    frame["open"] = [link("run", context.place, run=row.run, a="", b=rows[0].run, more="")
                     for row in rows]  # fmt: skip
    table(frame, "runs", "Every run, its step time against that of a.", columns=MANY,
          links=("open",))  # fmt: skip
    told = many.overlaid(charts)
    if told:
        picture(lines.stack(told, (), None, "step", title="All runs, by steps since each began"),
                "all-runs")  # fmt: skip
    st.subheader("b against a", anchor=False)


def _compared(context: Context, a: RunRow, b: RunRow) -> None:
    source = context.source
    one, other = source.run_lines(a.run, a.span), source.run_lines(b.run, b.span)
    ranks = part(lambda: (source.ranks(a.run, a.span), source.ranks(b.run, b.span)))
    told = measures.measures(one, other)
    step = next((each for each in told if each.chart == "step"), None)
    nodes = phases = None
    if ranks is not None:
        nodes, phases = places.nodes(*ranks), places.phases(*ranks)
    moved = () if ranks is None or phases is None else places.moved(phases, *ranks)
    works = (f"{a.workload} {a.layout}".strip(), f"{b.workload} {b.layout}".strip())
    said = compared.answer(step, moved, nodes, works)
    sentence(said.text, said.severity)
    _who(context, a, b)
    _settings(context, a, b)
    _measures(told, one, other)
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
        link_to("Swap a and b", "compare", context.place, a=b.run, b=a.run)
        link_to("Open a", "run", context.place, run=a.run, a="", b="")
        link_to("Open b with a as its baseline", "run", context.place, run=b.run, a="", b=a.run)


def _settings(context: Context, a: RunRow, b: RunRow) -> None:
    st.subheader("Settings that differ", anchor=False)
    specs = part(lambda: (context.source.spec(a.run), context.source.spec(b.run)))
    if specs is None:
        return
    rows = differing(*specs)
    if not rows:
        st.caption("None: both runs were told the same.")
        return
    frame = pd.DataFrame(rows, columns=list(SETTINGS)).fillna("–")
    table(frame, "settings", "Of run.json, only what differs.")


def _measures(
    told: tuple[measures.Measure, ...], one: tuple[Lines, ...], other: tuple[Lines, ...]
) -> None:
    st.subheader("What was measured", anchor=False)
    names = [[chart.title for chart in charts if chart.values] for charts in (one, other)]
    if told:
        st.caption(plain(compared.HOW))
        table(compared.table(told), "measured", "Every line of both runs: medians, their ratio with"
              " its interval, and whether the difference is certain.", columns=FORMATS)  # fmt: skip
    else:
        st.caption("The two runs have no measurement in common.")
    thinned = sorted({chart.sampling for chart in (*one, *other) if chart.sampling})
    for note in (*thinned, compared.missing(*names)):
        if note:
            st.caption(plain(note))


def _curves(
    context: Context, a: RunRow, b: RunRow, one: tuple[Lines, ...], other: tuple[Lines, ...]
) -> None:
    choice("x axis", "axis", AXES, context.place.axis)
    kind = context.place.axis if context.place.axis in AXES else "relative"
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


def _nodes(nodes: places.Nodes) -> None:
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
    axis = "step" if context.place.axis == "step" else "time"
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
