"""Start a run: a workload, a layout, a fault, and what became of the last one."""

from pathlib import Path

import streamlit as st

from lockstep.collector.contract.words import FaultKind
from lockstep.dashboard.context import Context
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.starting import registry, remote, world
from lockstep.dashboard.starting.plan import Plan, PlanError, planned
from lockstep.dashboard.starting.registry import BusyError, Registry
from lockstep.dashboard.starting.remote import RemoteRuns
from lockstep.dashboard.starting.world import missing, unwritable
from lockstep.dashboard.widgets import starting
from lockstep.dashboard.widgets.shown import sentence
from lockstep.workloads.sdk.client.client import ApiError

REFRESH_SECONDS = 1.0
REMOTE_FOLDER = Path("runs")
"""As the command line shows it; the API has a folder of its own."""
ONE_AT_A_TIME = "One run at a time: the one above goes on."
QUEUES = "The one above goes on: this one waits until it is over."
PROBLEM = "start-problem"
"""In the session: why the last click on Start did nothing."""


def show(context: Context) -> None:
    """Draws the page."""
    folder = context.settings.runs
    if context.settings.api:
        _over_http(context)
        return
    if folder is None:
        sentence(OFF, Severity.NOTE)
        st.code(OFF_COMMAND, language=None)
        return
    if reason := missing() or unwritable(folder):
        sentence(reason, Severity.WARNING)
        return
    runs = registry.of(folder)
    goes_on = _state(context, runs)
    if problem := st.session_state.pop(PROBLEM, ""):
        sentence(problem, Severity.WARNING)
    _form(runs, folder, world.refused(), goes_on=goes_on)


def _over_http(context: Context) -> None:
    """The same page, of an API on this machine or another."""
    try:
        runs = remote.of(context.settings.api)
        refused, waiting = runs.refused(), runs.waiting()
        goes_on = _state(context, runs)
        if waiting:
            st.caption(f"Waiting, in this order: {', '.join(waiting)}.")
        if problem := st.session_state.pop(PROBLEM, ""):
            sentence(problem, Severity.WARNING)
        _form(runs, REMOTE_FOLDER, refused, goes_on=goes_on, queues=True)
    except (ApiError, ValueError, OSError) as error:
        sentence(f"Runs are started by an API, and: {error}.", Severity.WARNING)


def _state(context: Context, runs: Registry | RemoteRuns) -> bool:
    """The last run that was started; draws itself again while it goes on."""
    job = runs.job
    if job is None:
        text, severity = idle()
        sentence(text, severity)
        return False
    goes_on = not job.over

    @st.fragment(run_every=REFRESH_SECONDS if goes_on else None)
    def living() -> None:
        starting.run_state(job.snapshot(), context, job.stop)
        if goes_on and job.over:
            st.rerun()  # the form is free again

    living()
    return goes_on


def _form(
    runs: Registry | RemoteRuns, folder: Path, refused: dict[FaultKind, str], *, goes_on: bool,
    queues: bool = False,
) -> None:  # fmt: skip
    st.subheader("A new run", anchor=False)
    form = starting.run_form(refused)
    try:
        plan = planned(form, folder, runs.taken(), refused)
    except PlanError as error:
        sentence(str(error), Severity.WARNING)
        st.button("Start", key="start-start", disabled=True, type="primary")
        return
    st.caption("The same on the command line; this is what is run, without a shell:")
    st.code(plan.command, language=None, wrap_lines=True)
    st.button(
        "Start", key="start-start", type="primary", icon=":material/play_arrow:",
        disabled=goes_on and not queues,
        on_click=_start, args=(runs, plan),
        help=(QUEUES if queues else ONE_AT_A_TIME) if goes_on else None,
    )  # fmt: skip


def _start(runs: Registry | RemoteRuns, plan: Plan) -> None:
    try:
        runs.start(plan)
    except BusyError as error:
        st.session_state[PROBLEM] = str(error)
    except OSError as error:
        st.session_state[PROBLEM] = f"The run was not started: {error.strerror}."
    else:
        st.session_state[starting.NAME] = ""


OFF = (
    "Runs cannot be started here: the dashboard was started without a folder for them."
    " Start it so, on a machine that you trust its readers with:"
)
OFF_COMMAND = "lockstep dashboard runs --runs runs"


def idle() -> tuple[str, Severity]:
    """Before the first run."""
    return "Nothing runs. Choose an experiment below and start it.", Severity.NOTE
