"""The reference runs: one file each, and one line in TASKS."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lockstep.workloads.spec import RunSpec, Training
from lockstep.workloads.tasks.allreduce import TASK as ALLREDUCE
from lockstep.workloads.tasks.gpt import TASK as GPT
from lockstep.workloads.tasks.logreg import TASK as LOGREG
from lockstep.workloads.tasks.program import TASK as PROGRAM
from lockstep.workloads.tasks.resnet import TASK as RESNET

if TYPE_CHECKING:
    from lockstep.workloads.loop.trainable import Context, Trainable


class Task(Protocol):
    """What `lockstep run NAME` trains. A task's file imports torch inside `set_up` only."""

    @property
    def name(self) -> str:
        """As on the command line and in spec.WORKLOADS."""
        ...

    @property
    def defaults(self) -> Training:
        """What is trained where nobody says otherwise."""
        ...

    @property
    def options(self) -> frozenset[str]:
        """Fields of Training that may be given for it."""
        ...

    @property
    def formula(self) -> str:
        """How its model FLOPs are counted, in a word or two."""
        ...

    @property
    def metrics(self) -> frozenset[str]:
        """What an evaluation measures, by the names of goals.METRICS."""
        ...

    @property
    def goals(self) -> Mapping[str, str]:
        """By `full` and `light`, in the words of goals.py."""
        ...

    @property
    def sample(self) -> str:
        """What one sample is, in the plural: tokens, images, rows."""
        ...

    def per_step(self, spec: RunSpec) -> int:
        """How many of `sample` all ranks together get done in a step."""
        ...

    def check(self, spec: RunSpec) -> RunSpec:
        """The spec with what is left to the task filled in, before any rank starts.

        Raises:
            SpecError: A setting is wrong.
            DataError: The data are.
        """
        ...

    def prepare(self, spec: RunSpec, workspace: Path) -> Path:
        """Make what the ranks read, once, before they start; returns Context.data.

        Raises:
            OSError: It cannot be written.
        """
        ...

    def about(self, spec: RunSpec) -> dict[str, Any]:
        """What run.json tells of it: at least `data`, `synthetic` or the user's path."""
        ...

    def set_up(self, context: "Context") -> "Trainable[Any]":
        """What a rank trains; on the rank, after it has joined the others."""
        ...


TASKS: tuple[Task, ...] = (GPT, RESNET, LOGREG, ALLREDUCE)


def find(name: str) -> Task:
    """The task of a name of spec.WORKLOADS, or of spec.PROGRAM."""
    return next(task for task in (*TASKS, PROGRAM) if task.name == name)
