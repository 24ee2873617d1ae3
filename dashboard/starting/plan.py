"""From a form to the arguments of `lockstep run`, or one sentence about what is wrong. Pure."""

import math
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from lockstep.collector.contract.words import FaultKind
from lockstep.dashboard.starting.form import MODELS, MOST, SCOPES, WORKLOADS, Form
from lockstep.workloads.faults.kinds import BUILT, STOP_KINDS
from lockstep.workloads.faults.link import LINK_KINDS, LinkError
from lockstep.workloads.faults.plan import MOST_FACTOR, Fault, check_links, parse
from lockstep.workloads.faults.settings import FaultError
from lockstep.workloads.models.configs import ConfigError
from lockstep.workloads.spec import MAX_LOCAL_RANKS, DataError, Layout, RunSpec, SpecError
from lockstep.workloads.tasks.registry import find

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}", re.ASCII)
_NOT_IN_OPTIONS = {"ranks_per_node": "ranks per node", "from_step": "first step of the fault"}


class PlanError(ValueError):
    """The form asks for something that cannot be; the message says what would be right.

    Attributes:
        field: Of the form; empty = several together.
    """

    def __init__(self, sentence: str, field: str = "") -> None:
        super().__init__(sentence)
        self.field = field


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that may be started.

    Attributes:
        name: Of its folder.
        out: Its archive.
        arguments: What follows `lockstep`, as a list: no shell reads them.
        follow: Whether analysis and report follow.
        form: What was filled in; None = it is of no form.
    """

    name: str
    out: Path
    arguments: tuple[str, ...]
    follow: bool
    form: Form | None = None

    @property
    def command(self) -> str:
        """As a line that a person types; it ends with the verdict."""
        return shlex.join(("lockstep", *self.arguments))


def planned(
    form: Form, folder: Path, taken: Collection[str], refused: Mapping[FaultKind, str]
) -> Plan:
    """The checked plan of a form.

    Args:
        form: As filled in; nothing of it is trusted.
        folder: Where archives go.
        taken: Names that are there already.
        refused: Kinds of fault that this machine cannot inject, and why.

    Raises:
        PlanError: Something cannot be.
    """
    _check_words(form)
    _check_numbers(form)
    name = form.name or first_free(form.workload, taken)
    if name in taken:
        raise PlanError(f"The folder {name} is there already; give another name.", "name")
    try:
        _check_together(form, refused)
    except (SpecError, FaultError, LinkError, ConfigError, DataError) as error:
        raise PlanError(f"This cannot be run: {error}.") from error
    out = folder / name
    return Plan(name, out, _arguments(form, out), form.follow, form)


def first_free(workload: str, taken: Collection[str]) -> str:
    """`gpt-1`, `gpt-2`, …: the first that is not taken."""
    number = 1
    while f"{workload}-{number}" in taken:
        number += 1
    return f"{workload}-{number}"


def fault_spec(form: Form) -> str:
    """The SPEC of `--fault` (docs/reference/command-line.md); empty without a fault."""
    if not form.fault:
        return ""
    words = [f"{form.scope}={form.place}"]
    if form.fault not in STOP_KINDS:
        words.append(f"factor={form.factor:g}")
    if form.from_step:
        words.append(f"from={form.from_step}")
    return f"{form.fault}:{','.join(words)}"


def fault_specs(form: Form) -> tuple[str, ...]:
    """Every SPEC: the one of the fields, and those that are given as such."""
    return tuple(filter(None, (fault_spec(form), *form.faults)))


def _arguments(form: Form, out: Path) -> tuple[str, ...]:
    numbers = [("--nodes", form.nodes), ("--ranks-per-node", form.ranks_per_node)]
    numbers += [("--dp", form.dp)] if form.dp else []
    numbers += [
        ("--tp", form.tp),
        ("--pp", form.pp),
        ("--steps", form.steps),
        ("--seed", form.seed),
    ]
    words = ["run", form.workload]
    for option, number in numbers:
        words += [option, str(number)]
    words += ["--model", form.model] if form.model else []
    for spec in fault_specs(form):
        words += ["--fault", spec]
    return (*words, "--out", str(out))


def _check_words(form: Form) -> None:
    _one_of("workload", form.workload, WORKLOADS)
    if form.model:
        models = MODELS.get(form.workload, ())
        if not models:
            raise PlanError(f"{form.workload} has one model only; leave the model out.", "model")
        _one_of("model", form.model, models)
    if form.fault:
        _one_of("fault", form.fault, BUILT)
        _one_of("place of the fault", form.scope, SCOPES)
    if form.name and not _NAME.fullmatch(form.name):
        raise PlanError(
            "The name must be of small letters, digits and hyphens, 40 at most, and begin with a"
            " letter or a digit.",
            "name",
        )


def _one_of(what: str, word: str, known: Collection[str]) -> None:
    if word not in known:
        raise PlanError(f"The {what} must be one of {', '.join(known)}.", what)


def _check_numbers(form: Form) -> None:
    for field, (least, most) in MOST.items():
        number = getattr(form, field)
        if type(number) is not int or not least <= number <= most:
            what = _NOT_IN_OPTIONS.get(field, field)
            raise PlanError(f"The {what} must be a whole number from {least} to {most}.", field)
    if not (math.isfinite(form.factor) and 1.0 < form.factor <= MOST_FACTOR):
        raise PlanError(f"The factor must be above 1 and at most {MOST_FACTOR:g}.")
    world = form.nodes * form.ranks_per_node
    if world > MAX_LOCAL_RANKS:
        raise PlanError(
            f"{form.nodes} nodes of {form.ranks_per_node} ranks are {world} ranks; one machine"
            f" runs {MAX_LOCAL_RANKS} at most."
        )


def _check_together(form: Form, refused: Mapping[FaultKind, str]) -> None:
    """What `lockstep run` would refuse, before it starts; raises its own errors."""
    replicas = form.dp or max(1, form.nodes * form.ranks_per_node // (form.tp * form.pp))
    layout = Layout(form.nodes, form.ranks_per_node, replicas, form.tp, form.pp)
    can = {kind: refused.get(kind, "") for kind in BUILT}
    faults: tuple[Fault, ...] = tuple(
        parse(
            spec, nodes=form.nodes, ranks_per_node=form.ranks_per_node, steps=form.steps,
            available=can,
        )
        for spec in fault_specs(form)
    )  # fmt: skip
    check_links(faults, form.nodes)
    task = find(form.workload)
    training = replace(task.defaults, model=form.model) if form.model else task.defaults
    task.check(
        RunSpec(
            run=form.workload, workload=form.workload, layout=layout, steps=form.steps,
            seed=form.seed, training=training, faults=faults,
        )
    )  # fmt: skip


def takes_factor(kind: str) -> bool:
    """Whether a kind of fault has a size: those that stop a rank have none."""
    return kind not in STOP_KINDS


def takes_rank(kind: str) -> bool:
    """Whether a kind of fault can be on one rank: a link belongs to a node."""
    return kind not in LINK_KINDS
