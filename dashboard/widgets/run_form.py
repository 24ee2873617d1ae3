"""The form of a new run; what it gives is checked by starting.plan, not here."""

from collections.abc import Mapping

import streamlit as st

from lockstep.collector.contract.words import FaultKind
from lockstep.dashboard.starting.form import MODELS, MOST, PRESETS, WORKLOADS, Form
from lockstep.dashboard.starting.plan import takes_factor, takes_rank
from lockstep.dashboard.widgets import picking
from lockstep.dashboard.widgets.shown import plain
from lockstep.workloads.faults.kinds import BUILT

NO_FAULT = "none"
NAME = "start-name"
"""In the session: the name of the next run; who starts one empties it, for names are taken once."""
LEAST_FACTOR, MOST_FACTOR = 1.1, 10.0


def draw(refused: Mapping[FaultKind, str]) -> Form:
    """The form, filled from a preset; choosing another preset fills it anew.

    Args:
        refused: Kinds of fault that this machine cannot inject, and why.
    """
    asked = picking.word("preset")
    preset = asked if asked in PRESETS else next(iter(PRESETS))
    st.selectbox("Experiment", tuple(PRESETS), **picking.bound("preset", preset))
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
        told = _fault(fields, base, refused)
        follow = st.checkbox(
            "Analyze and report when it has ended", value=base.follow, key=fields.key("follow")
        )
    return Form(
        workload=workload, nodes=nodes, ranks_per_node=ranks, dp=dp, tp=tp, pp=pp, steps=steps,
        model=model, seed=seed, name=name or "", follow=follow,
        fault=told.fault, scope=told.scope, place=told.place, factor=told.factor,
        from_step=told.from_step,
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
