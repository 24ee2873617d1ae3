"""Straggler: who is late, in which phase, caused by what?"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from lockstep.analyzer.report.figures import cell
from lockstep.dashboard.context import Context
from lockstep.dashboard.figures import layout_map, matrix, phases
from lockstep.dashboard.shapes import FindingRow
from lockstep.dashboard.widgets.finding import glance, on_call
from lockstep.dashboard.widgets.links import EVIDENCE, link_to, ways
from lockstep.dashboard.widgets.markup import capital, plain
from lockstep.dashboard.widgets.shown import (
    formats,
    later,
    number_row,
    part,
    picture,
    sentence,
    table,
)
from lockstep.dashboard.words import culprits as culprits_words
from lockstep.dashboard.words import verdict as verdict_words
from lockstep.dashboard.words import what_if
from lockstep.dashboard.words.columns import worded
from lockstep.dashboard.words.said import Number, lost
from lockstep.dashboard.words.verdict import mapping, number, records, text, whole

CULPRITS_AT_MOST = 4
"""With their evidence; the others stand in the table of causes."""
MAP_MEANING = (
    "A rank's own time over the median of its stage, by window: a row that turns bright is a rank"
    " that became slow, a bright column is a moment in which everybody was slow."
)
FIRST = ("rank", "node", "gpu", "slowdown", "wait_share", "own_seconds", "wall_seconds")
"""Columns of the table of ranks, before all others."""
PERCENT = st.column_config.NumberColumn(format="percent")
RATIO = st.column_config.NumberColumn(format="%.4g")


def show(context: Context) -> None:
    """Draws the page."""
    source, place = context.source, context.location
    of_run = source.verdict(place.run)
    row = _finding(context)
    said = culprits_words.headline(
        of_run, place, row, source.run(place.run), live=context.answer.live
    )
    sentence(said.text, said.severity)
    if said.command:
        st.code(said.command, language="bash")
    verdict = culprits_words.first(of_run, place, row)
    if row is not None:
        glance(row, source.run(place.run), context.answer.now)
    _ways(context, verdict, row)
    if row is not None:
        on_call(row, context.settings, "straggler")
    if verdict is not None:
        _hang(context, verdict)
        _causes(context, verdict)
        _numbers(verdict)
    _measured(context, verdict)
    if verdict is not None:
        _without(verdict)
        _rest(verdict)
        later("What each worker and operation costs, simulated", "simulated-open",
              lambda: _simulated(verdict))  # fmt: skip


def _finding(context: Context) -> FindingRow | None:
    if not context.location.finding:
        return None
    found = part(lambda: context.source.findings(context.span, context.location.run))
    row = culprits_words.finding(context.location, found or ())
    if row is None:
        st.caption(plain(f"Finding {context.location.finding} itself is unknown in this range;"
                         " what stands here is the verdict of the run."))  # fmt: skip
    return row


def _ways(context: Context, verdict: Mapping[str, Any] | None, row: FindingRow | None) -> None:
    """To who is named first, and what to do about it."""
    first = next(iter(records((verdict or {}).get("culprits"))), {})
    node = row.node if row is not None else text(first.get("node"))
    if first or node:
        ways(context.location, node)


def _numbers(verdict: Mapping[str, Any]) -> None:
    interval = verdict.get("slowdown_interval")
    ends = "" if not isinstance(interval, list) else " to ".join(
        cell(number(end), "ratio") for end in interval
    )  # fmt: skip
    shown = (
        Number("Step time over ideal",
               "stopped" if mapping(verdict.get("hang"))
               else cell(number(verdict.get("slowdown")), "ratio"),
               help=f"Step time over ideal step time{', 95 % interval ' + ends if ends else ''}."),
        Number(*lost(number(verdict.get("lost_gpu_hours"))),
               help="What the culprits cost so far: GPUs times the time they waited."),
        Number("Confidence in the place",
               cell(verdict_words.place_confidence(verdict), "confidence"),
               help="Of the culprit whose place is least sure; unknown where no place is named."),
        Number("Confidence in the cause", cell(verdict_words.confidence(verdict), "confidence"),
               help="Of the culprit whose cause is least sure; unknown where no place is named."),
        Number("Coverage", cell(number(verdict.get("coverage")), "share"),
               help=verdict_words.how_sure(verdict)),
    )  # fmt: skip
    number_row(shown, "verdict")


def _hang(context: Context, verdict: Mapping[str, Any]) -> None:
    words = verdict_words.hang(verdict)
    if not words:
        return
    st.subheader("Who is missing", anchor=False)
    st.markdown(plain(words))
    missing = verdict_words.missing_ranks(verdict)
    ranks = part(lambda: context.source.ranks(context.location.run, context.span))
    if ranks is not None and missing:
        here = ranks[ranks["rank"].isin(list(missing))]
        table(worded(here[["rank", "node", "gpu", "dp", "pp", "tp", "steps"]]), "missing-ranks",
              "The ranks that never arrived, and where they are.")  # fmt: skip
    op = text(mapping(verdict.get("hang")).get("op"))
    link_to("Collectives of this run", "collectives", context.location, op=op)


def _causes(context: Context, verdict: Mapping[str, Any]) -> None:
    culprits = records(verdict.get("culprits"))
    ranked = culprits_words.causes(verdict)
    if len(ranked):
        st.subheader("Caused by what", anchor=EVIDENCE)
        table(ranked, "causes", "Causes, the most probable first within each culprit.",
              columns={"confidence": st.column_config.NumberColumn(format="%.2f")})  # fmt: skip
    for index, culprit in enumerate(culprits[:CULPRITS_AT_MOST]):
        st.markdown(f"**Evidence on {plain(verdict_words.who(culprit))}**")
        _evidence(culprit, f"evidence-{index}")
        node, gpu = text(culprit.get("node")), whole(culprit.get("gpu"))
        if node and gpu is not None:
            link_to(f"GPU {gpu} of {node}", "node", context.location, node=node, gpu=gpu,
                    rank=whole(culprit.get("rank")))  # fmt: skip
        elif node:
            link_to(f"Node {node}", "node", context.location, node=node, gpu=None, rank=None)
    left = len(culprits) - CULPRITS_AT_MOST
    if left > 0:
        st.caption(f"{left} more culprits: their evidence is in verdict.json.")


def _evidence(culprit: Mapping[str, Any], key: str) -> None:
    seen = culprits_words.observations(culprit)
    if not seen:
        st.caption(culprits_words.NO_EVIDENCE)
        return
    st.markdown("\n".join(
        f"- **{'+ for' if speaks else '− against'}**: {plain(words)}" for speaks, words in seen
    ))  # fmt: skip
    with st.expander("Where each comes from"):
        table(culprits_words.evidence(culprit), key, "Observations for and against the cause.")


def _measured(context: Context, verdict: Mapping[str, Any] | None) -> None:
    source, run, span = context.source, context.location.run, context.span
    st.subheader("Who is late, and in which phase", anchor=False)
    st.caption(plain(verdict_words.measured(verdict, span)))
    since = verdict_words.onset(verdict, span)
    if since is not None:
        link_to("Measure from the onset on", "straggler", context.location,
                since=str(int(since * 1e3)))  # fmt: skip
    ranks = part(lambda: source.ranks(run, span))
    if ranks is None:
        return
    named = verdict_words.named(verdict, _by_node(ranks))
    times = part(lambda: source.rank_times(run, span))
    if times is not None:
        axis = context.location.axis or "time"
        picture(matrix.matrix(times, axis=axis, meaning=MAP_MEANING), "map")
    left, right = st.columns(2)
    with left:
        picture(phases.phases(ranks, named), "phases")
    if times is not None:
        with right:
            picture(matrix.lateness(times, named), "lateness")
    first = [name for name in FIRST if name in ranks]
    shown = worded(ranks[[*first, *(name for name in ranks if name not in first)]])
    if note := ranks.attrs.get("note"):
        st.caption(plain(capital(f"{note}.")))
    table(shown, "ranks", "Every rank, the slowest first; medians of the range.",
          columns=formats(shown) | {"in collectives": PERCENT})  # fmt: skip


def _by_node(ranks: pd.DataFrame) -> dict[str, tuple[int, ...]]:
    return {
        str(node): tuple(int(rank) for rank in rows) for node, rows in ranks.groupby("node")["rank"]
    }


def _without(verdict: Mapping[str, Any]) -> None:
    known = mapping(verdict.get("what_if"))
    st.subheader("What would the run take without", anchor=False)
    st.caption(plain(what_if.method(known)))
    first = what_if.without(known)
    if first:
        st.markdown(f"**{plain(first)}**")
    fixes = what_if.fixes(known)
    if len(fixes):
        table(fixes, "fixes", "What each repair would give.",
              columns=dict.fromkeys(what_if.FIXES[1:4], PERCENT))  # fmt: skip


def _simulated(verdict: Mapping[str, Any]) -> None:
    known = mapping(verdict.get("what_if"))
    workers = [
        (dp, pp)
        for culprit in records(verdict.get("culprits"))
        if (dp := whole(culprit.get("dp"))) is not None
        and (pp := whole(culprit.get("pp"))) is not None
    ]
    if known.get("S_w") is not None:
        picture(layout_map.layout_map(known, workers), "layout")
    figures = what_if.figures(known)
    if figures.empty:
        st.caption(plain(what_if.method(known)))
        return
    table(figures, "what-if", "Figures of the simulation, each explained.",
          columns=dict.fromkeys(what_if.FIGURES[1:4], RATIO))  # fmt: skip


def _rest(verdict: Mapping[str, Any]) -> None:
    for title, key, words, frame in (
        ("Slow by design, not a fault", "structure",
         "What of the run's structure takes longer.", verdict_words.structure(verdict)),
        ("Suspects that were ruled out", "rejected", "Ranks and why they are not to blame.",
         verdict_words.rejected(verdict)),
        ("Hardware that deviates", "anomalies", "Parts unlike their peers, costly or not.",
         verdict_words.anomalies(verdict)),
        ("What the analysis did not have", "missing", "What was looked for and not found.",
         verdict_words.missing(verdict)),
    ):  # fmt: skip
        if len(frame):
            st.subheader(title, anchor=False)
            table(frame, key, words, columns={"share of the step": PERCENT, "distance": RATIO})
    before = verdict_words.before(verdict)
    if before:
        st.subheader("Was it a culprit before", anchor=False)
        for line in before:
            st.markdown(plain(line))
