"""Starting a run: its form, how far it is, and what an API may do to it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import streamlit as st

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import RUN_FILE
from lockstep.collector.contract.words import FaultKind
from lockstep.dashboard.address import Location
from lockstep.dashboard.context import Context
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.starting import remote
from lockstep.dashboard.starting.plan import (
    MODELS,
    MOST,
    PRESETS,
    Form,
    takes_factor,
    takes_rank,
)
from lockstep.dashboard.starting.process import Snapshot, Stage
from lockstep.dashboard.starting.progress import Progress, duration, headline, lines, progress
from lockstep.dashboard.trouble import TroubleError
from lockstep.dashboard.widgets import choices
from lockstep.dashboard.widgets.links import link_to
from lockstep.dashboard.widgets.markup import plain
from lockstep.dashboard.widgets.shown import sentence
from lockstep.workloads.faults.kinds import BUILT
from lockstep.workloads.sdk.client.calls import ApiError
from lockstep.workloads.sdk.client.client import GOING
from lockstep.workloads.spec import WORKLOADS

MAX_BYTES = 1 << 20


def run_state(now: Snapshot, context: Context, stop: Callable[[], None]) -> None:
    """Draws the sentence, the bar, Stop, the log, and links once there is something behind them."""
    log = lines(now.log)
    far = progress(log)
    text, severity = headline(now, far)
    sentence(text, severity)
    if now.stage is not Stage.OVER:
        st.progress(_share(now, far), text=f"{now.stage.value}, for {duration(now.seconds)}")
        st.button(
            "Stop", key="start-stop", icon=":material/stop_circle:", on_click=stop,
            disabled=now.stage is Stage.STOPPING,
            help="The ranks are ended and the archive is closed; nothing is deleted.",
        )  # fmt: skip
    _links(now, context)
    with st.expander(f"What {now.name} says", expanded=now.stage is not Stage.OVER):
        st.code(now.command, language=None, wrap_lines=True)
        st.code("\n".join(log) or "Nothing yet.", language=None, height=140)


def _share(now: Snapshot, far: Progress) -> float:
    return far.share if now.stage in (Stage.RUNNING, Stage.STOPPING) else 1.0


def _links(now: Snapshot, context: Context) -> None:
    run = now.run or run_of(now.out)
    if not run:
        return
    try:
        context.source.run(run)
    except TroubleError:
        if now.stage is Stage.OVER:
            st.caption("Its archive is in another folder than this dashboard shows. Look at it by")
            st.code(f"lockstep dashboard {now.out}", language=None, wrap_lines=True)
        return
    with st.container(horizontal=True):
        link_to("Look at the run", "run", Location(run=run))
        if now.stage is Stage.OVER:
            link_to("Read its report", "run", Location(run=run), view="report")


def run_of(archive: Path) -> str:
    """Id of the run of an archive; empty while nobody wrote it."""
    try:
        document = bounded_json.read(archive / RUN_FILE, limit=MAX_BYTES)
        return str(document["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


# The form of a new run; what it gives is checked by starting.plan, not here.

NO_FAULT = "none"
NAME = "start-name"
"""In the session: the name of the next run; who starts one empties it, for names are taken once."""
LEAST_FACTOR, MOST_FACTOR = 1.1, 10.0


def run_form(refused: Mapping[FaultKind, str]) -> Form:
    """The form, filled from a preset; choosing another preset fills it anew.

    Args:
        refused: Kinds of fault that this machine cannot inject, and why.
    """
    asked = choices.word("preset")
    preset = asked if asked in PRESETS else next(iter(PRESETS))
    st.selectbox("Experiment", tuple(PRESETS), **choices.bound("preset", preset))
    base = PRESETS[preset]
    fields = _Fields(base, f"start-{tuple(PRESETS).index(preset)}")
    what, where, fault = st.columns(3, gap="medium")
    with what:
        workload = fields.choice("Workload", "workload", WORKLOADS)
        models = MODELS.get(workload, ())
        model = fields.choice("Model", "model", ("", *models)) if models else ""
        steps = fields.number("Steps", "steps")
        seed = fields.number("Seed", "seed")
    with where:
        nodes = fields.number("Emulated nodes", "nodes")
        ranks = fields.number("Ranks on each node", "ranks_per_node")
        left, middle, right = st.columns(3)
        with left:
            dp = fields.number("dp", "dp", "Data-parallel size; 0 = what the others leave.")
        with middle:
            tp = fields.number("tp", "tp", "Tensor-parallel size.")
        with right:
            pp = fields.number("pp", "pp", "Pipeline stages.")
        name = st.text_input(
            "Name of the folder", key=NAME, max_chars=40,
            placeholder="the first free one, as gpt-1",
        )  # fmt: skip
    with fault:
        fault_form = _fault(fields, base, refused)
        follow = st.checkbox(
            "Analyze and report when it has ended", value=base.follow, key=fields.key("follow")
        )
    return Form(
        workload=workload, nodes=nodes, ranks_per_node=ranks, dp=dp, tp=tp, pp=pp, steps=steps,
        model=model, seed=seed, name=name or "", follow=follow,
        fault=fault_form.fault, scope=fault_form.scope, place=fault_form.place,
        factor=fault_form.factor, from_step=fault_form.from_step,
    )  # fmt: skip


def _fault(fields: "_Fields", base: Form, refused: Mapping[FaultKind, str]) -> Form:
    """The part of the form that is about the fault."""
    kinds = (NO_FAULT, *(kind.value for kind in BUILT if kind not in refused))
    first = kinds.index(base.fault) if base.fault in kinds else 0
    kind = st.selectbox("Fault to inject", kinds, index=first, key=fields.key("fault"))
    if refused:
        why = "; ".join(dict.fromkeys(refused.values()))
        st.caption(plain(f"Not here: {', '.join(refused)}. {why}."))
    if kind == NO_FAULT:
        return Form()
    scopes = ("rank", "node") if takes_rank(kind) else ("node",)
    scope = fields.choice("On", "scope", scopes)
    place = fields.number(f"Which {scope}", "place")
    factor = base.factor
    if takes_factor(kind):
        factor = st.number_input(
            "Factor", LEAST_FACTOR, MOST_FACTOR, value=base.factor, step=0.1,
            key=fields.key("factor"),
            help="The culprit's own time per step during the fault over before.",
        )  # fmt: skip
    start = fields.number("From step", "from_step", "0 = after a third of the steps.")
    return Form(fault=kind, scope=scope, place=place, factor=factor, from_step=start)


class _Fields:
    """Widgets with the preset's values; their keys name the preset, so another one starts anew."""

    def __init__(self, base: Form, prefix: str) -> None:
        self._base, self._prefix = base, prefix

    def key(self, field: str) -> str:
        return f"{self._prefix}-{field}"

    def number(self, label: str, field: str, about: str | None = None) -> int:
        least, most = MOST[field]
        value = getattr(self._base, field)
        return int(
            st.number_input(label, least, most, value=value, key=self.key(field), help=about)
        )

    def choice(self, label: str, field: str, options: tuple[str, ...]) -> str:
        value = getattr(self._base, field)
        first = options.index(value) if value in options else 0
        return st.selectbox(
            label, options, index=first, key=self.key(field),
            format_func=lambda word: word or "the usual one",
        )  # fmt: skip


# What an API does to a run of the list: stop it, or remove it once it is over.

PROBLEM = "runs-problem"
"""In the session: why the last click did nothing."""


def waiting(api: str) -> None:
    """Which runs wait, in order; nothing without an API or where none wait."""
    if not api:
        return
    try:
        names = remote.of(api).waiting()
    except (ApiError, ValueError, OSError) as error:
        st.caption(f"Whether runs wait is unknown: {plain(str(error))}.")
        return
    if names:
        st.caption(f"Waiting, in this order: {', '.join(names)}.")


def run_actions(api: str, run: str) -> None:
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
            help="The ranks are ended and the archive is closed; nothing is deleted.",
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
