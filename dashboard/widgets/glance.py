"""Since when, how much, why and what first, under the sentence of a finding: one line each."""

import streamlit as st

from lockstep.dashboard.shapes import FindingRow, RunRow
from lockstep.dashboard.widgets.words import plain
from lockstep.dashboard.words import at_a_glance


def glance(one: FindingRow, run: RunRow | None, now: float) -> None:
    """Draws the lines.

    Args:
        one: The finding.
        run: That it is about, where it is known.
        now: Unix seconds of the source's clock.
    """
    action, command = at_a_glance.to_do(one)
    first = f"  \n**Do first** {plain(action)}" if action else ""
    st.markdown(
        f"**Since** {plain(at_a_glance.since(one, now))} · **Why** {plain(at_a_glance.why(one))}"
        f" · **Costs** {plain(at_a_glance.cost(one, run))}{first}"
    )
    if command:
        st.code(command, language="bash", wrap_lines=True)
