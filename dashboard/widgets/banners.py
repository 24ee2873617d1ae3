"""Above the numbers of a page: how old and how complete they are; or why there are none."""

import os
import re
import sys
import traceback
from collections.abc import Collection

import streamlit as st

from lockstep.dashboard.address import Location, utc
from lockstep.dashboard.context import Context
from lockstep.dashboard.shapes import FLEET_METRICS, Answer, RunRow, Severity, Span
from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.dashboard.widgets import links, shown
from lockstep.dashboard.widgets.markup import capital, plain
from lockstep.dashboard.words.said import age, interval, is_stale

RANGED = ("now", "cluster", "run", "node", "straggler", "collectives")
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
        links.link_to("Show the whole run", page, context.location, since="", until="", icon="")
    for text, severity in texts(context.answer, page, context.location.run):
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


DEBUG_VARIABLE = "LOCKSTEP_DEBUG"
MOST_CHOICES = 30
SEVERITIES = {
    Kind.NO_SOURCE: Severity.NOTE,
    Kind.EMPTY: Severity.NOTE,
    Kind.NOT_ANALYZED: Severity.NOTE,
    Kind.NOT_TOLD: Severity.NOTE,
    Kind.UNKNOWN_ID: Severity.WARNING,
    Kind.UNREADABLE: Severity.CRITICAL,
    Kind.REFUSED: Severity.CRITICAL,
    Kind.UNREACHABLE: Severity.CRITICAL,
}
_COMMAND = re.compile(r"`([^`\n]+)`")
_BARE_COMMAND = re.compile(r"(lockstep|pip|kubectl|curl|promtool) \S.*")


def box(trouble: TroubleError, page: str, location: Location, nodes: Collection[str] = ()) -> None:
    """The sentence, the next step with its commands to copy, and what there is instead.

    Args:
        trouble: What a source said.
        page: Key of the page, for links to what there is.
        location: Where the reader looks.
        nodes: Names of the nodes that there are: a choice among them is a node.
    """
    shown.sentence(trouble.sentence, SEVERITIES[trouble.kind])
    words, commands = next_step(trouble.next_step)
    if words:
        st.markdown(plain(words))
    for command in commands:
        st.code(command, language=None, wrap_lines=True)
    for choice in trouble.choices[:MOST_CHOICES]:
        name, value = chosen_word(choice, nodes)
        links.link_to(choice, page, location.but(**{name: value}), icon="")
    left = len(trouble.choices) - MOST_CHOICES
    if left > 0:
        st.caption(f"And {left:,} more.")


def bug(error: Exception, page: str) -> None:
    """One sentence for what nobody foresaw; the traceback goes to stderr where it is asked for."""
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exception(error, file=sys.stderr)
    shown.sentence(
        f"This is a bug: the page {page} ended with {type(error).__name__}.", Severity.CRITICAL
    )
    st.markdown(
        plain("Look at another page, or start the dashboard so, which writes the traceback to"
              " stderr, and report it:")
    )  # fmt: skip
    st.code("lockstep --debug dashboard ...", language=None)


def next_step(text: str) -> tuple[str, tuple[str, ...]]:
    """A next step as its words and the commands in it.

    A command stands between backticks, or is the whole text.
    """
    if _BARE_COMMAND.fullmatch(text):
        return "", (text,)
    return text.replace("`", ""), tuple(_COMMAND.findall(text))


def chosen_word(choice: str, nodes: Collection[str]) -> tuple[str, str]:
    """Which word of the address a choice is for, and its value."""
    if choice in nodes:
        return "node", choice
    if any(choice == metric.key for metric in FLEET_METRICS):
        return "metric", choice
    return "run", choice
