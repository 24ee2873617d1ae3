"""What an API does to a run of the list: stop it, or remove it once it is over."""

from collections.abc import Callable

import streamlit as st

from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.starting import remote
from lockstep.dashboard.widgets.shown import plain, sentence
from lockstep.workloads.sdk.client.client import GOING, ApiError

PROBLEM = "runs-problem"
"""In the session: why the last click did nothing."""


def waiting(api: str) -> None:
    """Which runs wait, in order; nothing without an API or where none wait."""
    if not api:
        return
    try:
        names = remote.of(api).waiting()
    except (ApiError, ValueError, OSError) as error:
        st.caption(f"Whether runs wait is not known: {plain(str(error))}.")
        return
    if names:
        st.caption(f"Waiting, in this order: {', '.join(names)}.")


def draw(api: str, run: str) -> None:
    """Buttons for a run that the API knows; nothing without one."""
    if problem := st.session_state.pop(PROBLEM, ""):
        sentence(problem, Severity.WARNING)
    if not api:
        return
    try:
        runs = remote.of(api)
        state = runs.states().get(run)
    except (ApiError, ValueError, OSError):
        return  # said above
    if state is None:
        return
    if state in GOING:
        st.button(
            "Stop", key="runs-stop", icon=":material/stop_circle:", disabled=state == "stopping",
            on_click=_do, args=(runs.stop, run),
            help="The ranks are ended and the archive is closed; nothing is thrown away.",
        )  # fmt: skip
        return
    with st.popover("Delete", icon=":material/delete:"):
        st.write(f"The archive of {plain(run)} is removed for good, with its verdict and report.")
        st.button("Delete it", key="runs-delete", type="primary", on_click=_do,
                  args=(runs.delete, run))  # fmt: skip


def _do(act: Callable[[str], None], run: str) -> None:
    try:
        act(run)
    except ApiError as error:
        st.session_state[PROBLEM] = f"{error.reason}."
