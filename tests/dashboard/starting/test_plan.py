"""No form starts anything but a checked `lockstep run`."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.words import FaultKind
from lockstep.commands.run import run as run_command
from lockstep.dashboard.starting.plan import (
    MODELS,
    MOST,
    PRESETS,
    SCOPES,
    WORKLOADS,
    Form,
    Plan,
    PlanError,
    planned,
)
from lockstep.dashboard.starting.process import WITHOUT_VERDICT
from lockstep.workloads.faults.kinds import BUILT
from lockstep.workloads.faults.plan import parse

FOLDER = Path("/srv/runs")
OPTIONS = (
    "--nodes", "--ranks-per-node", "--dp", "--tp", "--pp", "--steps", "--seed", "--model",
    "--fault", "--out",
)  # fmt: skip
NASTY = st.one_of(
    st.text(max_size=60),
    st.sampled_from(["; rm -rf /", "$(id)", "--out", "-h", "../up", "gpt\n--exec", "a/b", ".", ""]),
)


def _words(known: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.one_of(st.sampled_from(known), NASTY)


def _number(field: str) -> st.SearchStrategy[Any]:
    least, most = MOST[field]
    return st.one_of(
        st.integers(least, most), st.sampled_from([-1, most + 1, True, "1", 2.0, None])
    )


FORMS = st.builds(
    Form,
    workload=_words(WORKLOADS),
    model=_words(("", *MODELS["gpt"], *MODELS["resnet"])),
    fault=_words(("", *BUILT)),
    scope=_words(SCOPES),
    name=_words(("", "mine", "mine-2")),
    factor=st.floats(allow_nan=True),
    follow=st.booleans(),
    **{field: _number(field) for field in MOST},  # type: ignore[arg-type]
)


@given(form=FORMS)
def test_no_form_yields_arguments_outside_the_allow_list(form: Form) -> None:
    try:
        plan = planned(form, FOLDER, (), {})
    except PlanError:
        return

    _allowed(plan)


POSSIBLE = st.builds(
    Form,
    workload=st.sampled_from(WORKLOADS),
    nodes=st.integers(1, 8),
    fault=st.sampled_from(("", *BUILT)),
    scope=st.just("node"),
    place=st.just(0),
    factor=st.floats(1.1, 10.0),
    from_step=st.integers(10, 100),
    steps=st.integers(150, 100_000),
    seed=st.integers(0, 2**31 - 1),
    name=st.from_regex(r"[a-z0-9][a-z0-9-]{0,39}", fullmatch=True),
)


@given(form=POSSIBLE)
def test_every_command_line_parses_back(form: Form) -> None:
    if form.nodes == 1 and form.fault.startswith("link"):
        return

    plan = planned(form, FOLDER, (), {})

    _allowed(plan)
    words = dict(zip(plan.arguments[2::2], plan.arguments[3::2], strict=True))
    assert (form.workload, str(form.nodes)) == (plan.arguments[1], words["--nodes"])
    assert (str(form.steps), str(form.seed)) == (words["--steps"], words["--seed"])
    if form.fault:
        fault = parse(
            words["--fault"], nodes=form.nodes, ranks_per_node=1, steps=form.steps,
            available=dict.fromkeys(BUILT, ""),
        )  # fmt: skip
        assert (form.fault, 0, form.from_step) == (fault.kind, fault.node, fault.from_step)
        assert fault.factor is None or abs(fault.factor - form.factor) < 1e-4


def _allowed(plan: Plan) -> None:
    command, workload, *rest = plan.arguments
    options, values = rest[::2], rest[1::2]
    assert ("run", True) == (command, workload in WORKLOADS)
    assert set(options) <= set(OPTIONS)
    assert len(options) == len(set(options)) == len(values)
    assert not any(value.startswith("-") or "\n" in value for value in values)
    assert (FOLDER, str(plan.out)) == (plan.out.parent, values[-1])
    assert ["lockstep", *plan.arguments] == shlex.split(plan.command)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_run(preset: str) -> None:
    assert planned(PRESETS[preset], FOLDER, (), {}).arguments[1] in WORKLOADS


def test_every_option_is_one_of_the_command() -> None:
    known = {name.replace("_", "-") for name in run_command.__annotations__}

    assert {option.removeprefix("--") for option in OPTIONS} <= known
    assert WITHOUT_VERDICT.removeprefix("--no-") in known


def test_a_plan_says_what_a_person_would_type() -> None:
    form = Form(fault="thermal", place=2, from_step=60, name="hot", model="small", dp=4)

    assert (
        "lockstep run gpt --nodes 4 --ranks-per-node 1 --dp 4 --tp 1 --pp 1 --steps 150 --seed 0"
        " --model small --fault thermal:rank=2,factor=1.5,from=60 --out /srv/runs/hot"
    ) == planned(form, FOLDER, (), {}).command


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"workload": "rm"}, "workload must be one of gpt, resnet"),
        ({"model": "gpt3-175b"}, "model must be one of tiny"),
        ({"workload": "logreg", "model": "tiny"}, "logreg has one model only"),
        ({"nodes": 5, "ranks_per_node": 2}, "10 ranks; one machine runs 8 at most"),
        ({"tp": 3}, "does not match 4 nodes"),
        ({"steps": 5}, "steps must be a whole number from 10"),
        ({"fault": "thermal", "place": 7}, "rank=7"),
        ({"fault": "thermal", "from_step": 3}, "must lie inside 10 to 150"),
        ({"fault": "link-delay", "scope": "rank"}, "a link belongs to a node"),
        ({"fault": "link-delay", "scope": "node", "place": 0, "nodes": 1}, "no link to another"),
        ({"factor": float("nan")}, "factor must be above 1"),
        ({"name": "../up"}, "name must be of small letters"),
        ({"name": "taken"}, "taken is there already"),
        ({"pp": 4, "model": "tiny"}, "cannot be run"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        planned(replace(Form(), **changes), FOLDER, ("taken",), {})


def test_a_fault_that_this_machine_cannot_inject_is_refused_with_the_reason() -> None:
    form = Form(fault="cpu-quota")

    with pytest.raises(PlanError, match="cpu-quota needs root"):
        planned(form, FOLDER, (), {FaultKind.CPU_QUOTA: "cpu-quota needs root"})


def test_without_a_name_the_first_free_one_is_taken() -> None:
    assert "gpt-3" == planned(Form(), FOLDER, ("gpt-1", "gpt-2", "gpt-4"), {}).name
