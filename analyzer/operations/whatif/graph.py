"""The step of a pipeline as a graph: types of operations, and what waits for what in one replica.

docs/method/what-if.md has how each type is treated.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FORWARD, BACKWARD = "forward-compute", "backward-compute"
COMPUTE = (FORWARD, BACKWARD)

SENDS: Mapping[str, tuple[str, str, int]] = {
    "forward-send": (FORWARD, "forward-recv", 1),
    "backward-send": (BACKWARD, "backward-recv", -1),
}
"""Send -> the computation before it, what receives it, and how many stages away."""
RECEIVES: Mapping[str, str] = {"forward-recv": FORWARD, "backward-recv": BACKWARD}
"""Receive -> the computation after it."""
P2P = (*SENDS, *RECEIVES)

GATHER, SCATTER = "params-all-gather", "grads-reduce-scatter"
OVERLAPPED = "separate-grads-all-reduce"
"""Its presence means that gradient reduction overlaps the backward pass."""
LAYERNORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
CLIP, OPTIMIZER, GC, LOAD = "optimizer-clip-main-grad", "optimizer", "gc", "data-load"

OVER_REPLICAS = (GATHER, SCATTER, OVERLAPPED, CLIP)
"""All replicas leave these together."""
GROUPED = (*P2P, *OVER_REPLICAS, EMBEDDING)
"""Operations whose time is waiting for peers, then transfer; the others are local work."""

TAIL = (GC, LAYERNORM, EMBEDDING, SCATTER, OVERLAPPED, CLIP, OPTIMIZER)
"""The end of a step, in Megatron-LM's order."""
MODELLED = frozenset((*COMPUTE, *P2P, GATHER, LOAD, *TAIL))

MEAN_IDEAL = (*COMPUTE, OPTIMIZER, GC, LOAD)
"""Types whose published ideal is the mean; that of the others is the median."""

MERGED: Mapping[str, str] = {
    "forward-send": "forward-pp-comm",
    "forward-recv": "forward-pp-comm",
    "backward-send": "backward-pp-comm",
    "backward-recv": "backward-pp-comm",
}
"""Types that count as one where S is taken apart by type."""


class ModelError(ValueError):
    """The operations do not make the step of a pipeline; the message says which do not."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Operations that leave together: one local operation, or the members of a group.

    Attributes:
        members: Numbers of operations.
        grouped: Whether their time is waiting and transfer.
        replicas: Whether they leave together with the same operations of all replicas.
    """

    members: tuple[int, ...]
    grouped: bool
    replicas: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """One step of one replica; every replica has the same.

    Attributes:
        before: For each operation, those that must have ended before it starts.
        units: All operations, each once, a unit after all that its members wait for.
        last: The operations of which the last to end ends the step.
    """

    before: tuple[tuple[int, ...], ...]
    units: tuple[Unit, ...]
    last: tuple[int, ...]


def sort(before: Sequence[Sequence[int]], units: Sequence[Unit]) -> tuple[Unit, ...]:
    """The units in an order in which nothing precedes what it waits for.

    Raises:
        ModelError: Operations wait for each other in a circle, or fall into separate parts.
    """
    unit_of = {op: number for number, unit in enumerate(units) for op in unit.members}
    after: dict[int, set[int]] = defaultdict(set)
    waits = [0] * len(units)
    for number, unit in enumerate(units):
        needed = {unit_of[other] for op in unit.members for other in before[op]}
        waits[number] = len(needed)
        for other in needed:
            after[other].add(number)
    _check_connected(after, len(units))
    ready = [number for number in range(len(units) - 1, -1, -1) if not waits[number]]
    ordered = []
    while ready:
        number = ready.pop()
        ordered.append(units[number])
        for other in sorted(after[number], reverse=True):
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    if len(ordered) < len(units):
        raise ModelError(
            f"{len(units) - len(ordered)} operations of a step wait for each other in a circle;"
            " sends and receives are not in the same order on their two stages"
        )
    return tuple(ordered)


def _check_connected(after: dict[int, set[int]], count: int) -> None:
    near: dict[int, set[int]] = defaultdict(set)
    for number, others in after.items():
        for other in others:
            near[number].add(other)
            near[other].add(number)
    reached, todo = {0}, [0]
    while todo:
        fresh = near[todo.pop()] - reached
        reached |= fresh
        todo.extend(fresh)
    if len(reached) < count:
        raise ModelError(
            f"{count - len(reached)} of {count} operations of a step are tied to none of the"
            " others; sends and receives between stages are missing"
        )
