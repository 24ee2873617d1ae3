"""What stands above the numbers of every page: how old, how whole and how real they are."""

import math

import streamlit as st

from dashboard.address import utc
from dashboard.context import Context
from dashboard.shapes import Answer, RunRow, Severity, Span
from dashboard.widgets import links, shown
from dashboard.widgets.words import plain

STALE_SCRAPES = 3
"""A live source that is silent for so many scrape intervals is stale."""
UNKNOWN_SCRAPE_SECONDS = 15.0
"""Taken where nobody told how often is scraped: Prometheus' own usual choice is 15 s to 1 min."""
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
    if answer.simulated:
        said.append(("This fleet is simulated: nothing on this page was measured.", Severity.NOTE))
    if is_stale(answer):
        bad.append(
            f"The newest number is {age(answer)} old, and one is expected every"
            f" {interval(answer):g} s: what is shown was true then."
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


def is_stale(answer: Answer) -> bool:
    """Whether a live source has been silent for too long."""
    if not answer.live or answer.at is None:
        return False
    return answer.now - answer.at > STALE_SCRAPES * interval(answer)


def interval(answer: Answer) -> float:
    """Seconds between two scrapes."""
    told = answer.scrape_seconds
    return told if math.isfinite(told) and told > 0 else UNKNOWN_SCRAPE_SECONDS


def age(answer: Answer) -> str:
    """How long ago the newest number is from, in words."""
    return duration(max(0.0, answer.now - (answer.at if answer.at is not None else answer.now)))


def duration(seconds: float) -> str:
    """A length of time, in the largest unit that keeps it readable."""
    for limit, unit, word in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {word}"
    return f"{seconds / 86400:.0f} days"


def capital(text: str) -> str:
    """A text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
