"""What a form can ask for: the fields, the words that are allowed, and ready-made experiments."""

from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.workloads.spec import WORKLOADS

__all__ = ["MODELS", "MOST", "PRESETS", "SCOPES", "WORKLOADS", "Form"]

MODELS: Mapping[str, tuple[str, ...]] = {
    "gpt": ("tiny", "tiny-llama", "small", "deep", "demo"),
    "resnet": ("resnet20", "resnet32", "resnet44", "resnet56"),
}
"""Those that a machine without GPUs trains in minutes; a workload that is absent has no choice."""
SCOPES: tuple[str, ...] = ("rank", "node")
MOST: Mapping[str, tuple[int, int]] = {
    "nodes": (1, 8),
    "ranks_per_node": (1, 8),
    "dp": (0, 8),
    "tp": (1, 8),
    "pp": (1, 8),
    "steps": (10, 100_000),
    "seed": (0, 2**31 - 1),
    "place": (0, 7),
    "from_step": (0, 100_000),
}
"""Least and most of each number; ranks by workloads.spec.MAX_LOCAL_RANKS, steps by the planner."""


@dataclass(frozen=True, slots=True)
class Form:
    """One filled form.

    Attributes:
        dp: Data-parallel size; 0 = what nodes and ranks leave.
        model: Empty = the workload's own.
        fault: Kind of the fault; empty = a healthy run.
        scope: Whether the fault is on one rank or on all ranks of a node.
        place: Which rank or node.
        factor: The culprit's own time per step during the fault over before.
        from_step: First step of the fault; 0 = after a third of the steps.
        name: Of the archive's folder; empty = the first free one.
        faults: More faults, each a SPEC of `--fault`; forms of pages have none.
        follow: Whether `lockstep analyze` and `lockstep report` follow by themselves.
    """

    workload: str = "gpt"
    nodes: int = 4
    ranks_per_node: int = 1
    dp: int = 0
    tp: int = 1
    pp: int = 1
    steps: int = 150
    model: str = ""
    seed: int = 0
    fault: str = ""
    scope: str = "rank"
    place: int = 2
    factor: float = 1.5
    from_step: int = 0
    name: str = ""
    follow: bool = True
    faults: tuple[str, ...] = ()


PRESETS: Mapping[str, Form] = {
    "GPT, healthy": Form(),
    "GPT, one GPU too hot": Form(fault="thermal"),
    "GPT, late data on one node": Form(fault="data", scope="node", place=1),
    "GPT, one rank computes slowly": Form(fault="compute", place=3),
    "GPT, two tensor-parallel ranks a node, one GPU out of power": Form(
        nodes=2, ranks_per_node=2, tp=2, fault="power", place=1
    ),
    "GPT, two pipeline stages, healthy": Form(pp=2, model="small"),
    "GPT, one rank freezes": Form(fault="freeze", place=1),
    "ResNet, healthy": Form(workload="resnet"),
    "Logistic regression, healthy": Form(workload="logreg"),
    "All-reduce sweep, healthy": Form(workload="allreduce", steps=60),
}
"""Each ends within a minute or so on two cores."""
