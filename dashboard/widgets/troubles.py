"""What a page says instead of numbers."""

import os
import re
import sys
import traceback
from collections.abc import Collection

import streamlit as st

from lockstep.dashboard.address import Place
from lockstep.dashboard.shapes import FLEET_METRICS, Severity
from lockstep.dashboard.trouble import Kind, TroubleError
from lockstep.dashboard.widgets import links, shown
from lockstep.dashboard.widgets.words import plain

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


def box(trouble: TroubleError, page: str, place: Place, nodes: Collection[str] = ()) -> None:
    """The sentence, the next step with its commands to copy, and what there is instead.

    Args:
        trouble: What a source said.
        page: Key of the page, for links to what there is.
        place: Where the reader looks.
        nodes: Names of the nodes that there are: a choice among them is a node.
    """
    shown.sentence(trouble.sentence, SEVERITIES[trouble.kind])
    words, commands = next_step(trouble.next_step)
    if words:
        st.markdown(plain(words))
    for command in commands:
        st.code(command, language=None, wrap_lines=True)
    for choice in trouble.choices[:MOST_CHOICES]:
        name, value = chosen(choice, nodes)
        links.to(choice, page, place.but(**{name: value}), icon="")
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
              " stderr, and tell us:")
    )  # fmt: skip
    st.code("lockstep --debug dashboard ...", language=None)


def next_step(text: str) -> tuple[str, tuple[str, ...]]:
    """A next step as its words and the commands in it.

    A command stands between backticks, or is the whole text.
    """
    if _BARE_COMMAND.fullmatch(text):
        return "", (text,)
    return text.replace("`", ""), tuple(_COMMAND.findall(text))


def chosen(choice: str, nodes: Collection[str]) -> tuple[str, str]:
    """Which word of the address a choice is for, and its value."""
    if choice in nodes:
        return "node", choice
    if any(choice == metric.key for metric in FLEET_METRICS):
        return "metric", choice
    return "run", choice
