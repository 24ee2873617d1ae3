"""What stands above the numbers of every page: how old, how whole and how real they are."""

import streamlit as st

from lockstep.dashboard.address import utc
from lockstep.dashboard.context import Context
from lockstep.dashboard.shapes import Answer, RunRow, Severity, Span
from lockstep.dashboard.widgets import links, shown
from lockstep.dashboard.widgets.words import capital, plain
from lockstep.dashboard.words.age import age, interval, is_stale

RANGED = ("now", "cluster", "run", "node", "gpu", "straggler", "collectives")
"""Pages whose numbers are those of the range."""
ALL_RUNS = ("now", "runs")
"""Pages of all runs, which say what is not among them; Data health has it in its table."""


def draw(context: Context, run: RunRow | None, page: str) -> None:
    """Draws what applies; nothing where all is well.

    Args:
        context: Of the page.
        run: That it is about; None = all.
        page: Its key.
    """
    if run is not None and run.provenance:
        # Small, for it is no news: the box that is read first is the page's answer.
        st.caption(f":material/science: {plain(capital(', '.join(run.provenance)))}.")
    text = missed(context.span, run) if run is not None and page in RANGED else ""
    if text:
        shown.sentence(text, Severity.WARNING)
        links.to("Show the whole run", page, context.place, since="", until="", icon="")
    for text, severity in texts(context.answer, page, context.place.run):
        if severity is Severity.NOTE:
            st.caption(f":material/info: {plain(text)}")
        else:
            shown.sentence(text, severity)


def missed(span: Span, run: RunRow) -> str:
    """That a range has nothing of its run; empty = it has."""
    if (span.start < run.span.end and run.span.start < span.end) or run.span.seconds <= 0:
        return ""
    until = f" and ends {utc(span.end)}" if span.seconds > 0 else ""
    return (
        f"This range has nothing of the run: it begins {utc(span.start)}{until}; the run went from"
        f" {utc(run.span.start)} to {utc(run.span.end)}."
    )


def texts(answer: Answer, page: str = "", run: str = "") -> list[tuple[str, Severity]]:
    """What a reader must know of the numbers below, most important first.

    Args:
        answer: How whole they are.
        page: Key of the page: what it says itself is not said twice.
        run: Id of the run that it is about; empty = all.
    """
    said = []
    see = "" if page == "health" else " See Data health."
    bad = []
    if is_stale(answer):
        bad.append(
            f"The newest number is {age(answer)} old, and one is expected every"
            f" {round(interval(answer), 2):g} s: what is shown was true then."
        )
    expected, answering = answer.nodes
    if answering < expected and not (page == "now" or (page == "cluster" and not run)):
        bad.append(f"{answering:,} of {expected:,} nodes answer; the numbers are of these.")
    if bad:
        said.append((" ".join(bad) + see, Severity.WARNING))
    if answer.missing:
        said.append((f"Not found: {'; '.join(answer.missing)}.", Severity.NOTE))
    if page in ALL_RUNS:
        said += [(text, Severity.NOTE) for text in answer.left_out]
    return said
