"""Now: is anything holding training back? Which node, why?"""

from collections.abc import Mapping, Sequence

import streamlit as st

from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import heatmap
from lockstep.dashboard.shapes import FLEET_METRICS, FindingRow, FleetSnapshot, RunRow
from lockstep.dashboard.widgets.finding import glance, on_call
from lockstep.dashboard.widgets.links import link_to, ways
from lockstep.dashboard.widgets.markup import plain
from lockstep.dashboard.widgets.shown import number_row, part, picture, sentence, table
from lockstep.dashboard.words import findings, now, places
from lockstep.dashboard.words.said import Said

FINDINGS_AT_MOST = 200
EVENTS_AT_MOST = 10
MOMENT = st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss", timezone="UTC")


def show(context: Context) -> None:
    """Draws the page."""
    source, span = context.source, context.span
    run = context.location.run
    runs = (source.run(run),) if run else source.runs(span)
    found_now = source.findings(span, run)
    first = now.spoken(found_now, context.answer)
    by_run = {row.run: row for row in runs}
    answered = st.container()
    at = _moment(context, by_run, first)
    fleet = part(lambda: source.fleet(FLEET_METRICS[0], at))
    said = now.headline(runs, found_now, context.answer, fleet)
    with answered:
        _answer(context, said, first, by_run)
    shown = now.numbers(runs, found_now, fleet, context.answer)
    number_row(shown, "now")
    _findings(context, found_now, runs)
    left, right = st.columns(2)
    with left:
        _map(context, fleet)
    with right:
        _events(context)


def _answer(
    context: Context, said: Said, first: FindingRow | None, by_run: Mapping[str, RunRow]
) -> None:
    """The sentence of the page, and the ways from it."""
    sentence(said.text, said.severity)
    if said.command:
        st.code(said.command, language="bash")
    if first is not None:
        row = by_run.get(first.run)
        glance(first, row, context.answer.now)
        location = findings.around(first, row.span if row else None)
        ways(location, first.node, location.but(rank=None) if first.run else location)
        on_call(first, context.settings, "now")


def _moment(context: Context, runs: Mapping[str, RunRow], first: FindingRow | None) -> float | None:
    """Of the map: the end of the range; of recorded runs the end of the one that is spoken of."""
    if context.location.until:
        return context.span.end
    row = runs.get(first.run) if first is not None and not context.answer.live else None
    return None if row is None else row.span.end


def _findings(context: Context, rows: Sequence[FindingRow], runs: Sequence[RunRow]) -> None:
    st.subheader("Findings", anchor=False)
    if not rows:
        st.caption("None is known in this range.")
        return
    first = findings.worst_first(rows)[:FINDINGS_AT_MOST]
    frame = findings.findings(first, {row.run: row for row in runs})
    table(
        frame, "findings", "Findings, open ones first, then the worst.",
        links=findings.FINDING_LINKS,
        columns={**dict.fromkeys(findings.SURE, st.column_config.NumberColumn(format="%.2f")),
                 "slowdown": st.column_config.NumberColumn(format="%.2f×"),
                 "since (UTC)": MOMENT, "what": st.column_config.Column(width=200)},
    )  # fmt: skip
    left = len(rows) - len(first)
    if left > 0:
        st.caption(f"{left:,} more are not shown; choose a shorter range or a run.")


def _map(context: Context, fleet: FleetSnapshot | None) -> None:
    st.subheader("The cluster", anchor=False)
    if fleet is None:
        return
    if context.location.run:
        fleet = heatmap.only_run(fleet, context.location.run)
    if not context.answer.live or context.location.until:
        st.caption(plain(f"Of {places.moment(fleet)}."))
    chosen = picture(heatmap.fleet(fleet, select=False), "fleet", select=True)
    if chosen:
        node, gpu = str(chosen[0]), int(chosen[1])
        link_to(f"Node {node}", "node", context.location, node=node, gpu=None, rank=None)
        if gpu >= 0:
            link_to(f"GPU {gpu} of {node}", "node", context.location, node=node, gpu=gpu)
    link_to("The whole cluster, by any metric", "cluster", context.location)


def _events(context: Context) -> None:
    st.subheader("Last events", anchor=False)
    events = part(lambda: context.source.events(context.span, context.location.run))
    if events is None:
        return
    if not events:
        st.caption("No event was reported in this range.")
        return
    table(findings.events(events[-EVENTS_AT_MOST:][::-1]), "events", "The newest events first.",
          columns={"time (UTC)": MOMENT})  # fmt: skip
    left = len(events) - EVENTS_AT_MOST
    if left > 0:
        st.caption(plain(f"{left:,} earlier ones are on the pages of runs and nodes."))
