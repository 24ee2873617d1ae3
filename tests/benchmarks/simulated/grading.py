"""A verdict against the truth of a run: who is found, with which cause, who is named wrongly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Injected:
    """A fault as grading sees it.

    Attributes:
        scope: rank, node, or link and rack for what is of the network.
        ranks: Those that it slows or ends by itself; none of a link.
        nodes: Where it is; several for a leaf switch.
        link: Name of a leaf switch; None where nothing but a node has it.
        causes: Words of the contract, any of which is right.
        effect: Share by which steps are longer while it is there; None of one that ends the run.
        tellable: Whether anything in the archive tells where it is.
        detail: Its shape and what sensors tell, in words.
    """

    kind: str
    scope: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    link: str | None
    causes: tuple[str, ...]
    effect: float | None
    tellable: bool
    detail: str


@dataclass(frozen=True)
class Truth:
    """What was injected, and in words what a run without a fault is."""

    faults: tuple[Injected, ...]
    otherwise: str


@dataclass(frozen=True)
class FaultGrade:
    """What a verdict makes of one fault.

    Attributes:
        effect: As of `Injected`; tellable likewise.
        found: Whether a culprit is it, or holds it (a node of its rank); cause_right of those.
    """

    kind: str
    effect: float | None
    tellable: bool
    found: bool
    cause_right: bool


@dataclass(frozen=True)
class RunGrade:
    """What a verdict makes of one run.

    Attributes:
        line: The run in words, for a person who looks into it.
        injected: Whether there was a fault at all.
        named, right: Culprits, and those of them that are a fault.
        told_healthy: Whether the verdict is that nothing is slow.
    """

    line: str
    injected: bool
    faults: tuple[FaultGrade, ...]
    named: int
    right: int
    told_healthy: bool


def grade(
    name: str, truth: Truth, verdict: Mapping[str, Any], node_of: Mapping[int, str]
) -> RunGrade:
    """Of a verdict's JSON; `node_of` says where each rank stands."""
    culprits: Sequence[Mapping[str, Any]] = verdict["culprits"]
    faults, right = [], set[int]()
    for fault in truth.faults:
        hits = [number for number, culprit in enumerate(culprits) if _is(fault, culprit, node_of)]
        right.update(hits)
        faults.append(
            FaultGrade(
                kind=fault.kind,
                effect=fault.effect,
                tellable=fault.tellable,
                found=bool(hits),
                cause_right=any(culprits[hit]["cause"] in fault.causes for hit in hits),
            )
        )
    return RunGrade(
        line=_line(name, truth, verdict),
        injected=bool(truth.faults),
        faults=tuple(faults),
        named=len(culprits),
        right=len(right),
        told_healthy=verdict["status"] == "healthy",
    )


def _is(fault: Injected, culprit: Mapping[str, Any], node_of: Mapping[int, str]) -> bool:
    """Whether the culprit is the fault's place, or what holds it: its node, a link of its node."""
    rank, link = culprit["rank"], culprit["link"] or ""
    node = culprit["node"] or (None if rank is None else node_of.get(rank))
    on_node = node in fault.nodes
    on_link = any(name in link for name in fault.nodes)
    of_link = culprit["scope"] == "link" and on_link
    if fault.scope == "rank":
        # Both ends of an NVLink are on the node, and either may be named.
        whole = rank is None or fault.kind == "nvlink"
        return rank in fault.ranks or (whole and on_node) or of_link
    if fault.scope == "node":
        return (rank is None and on_node) or rank in fault.ranks or of_link
    return on_node or on_link or (bool(link) and link.split()[-1] == fault.link)


def _line(name: str, truth: Truth, verdict: Mapping[str, Any]) -> str:
    injected = [
        f"{fault.kind} of {_where(fault)} ({fault.detail}, {_percent(fault.effect)})"
        for fault in truth.faults
    ]
    named = [f"{each['cause']} of {_place(each)}" for each in verdict["culprits"]]
    told = " and ".join(injected) or truth.otherwise
    return f"simulated run {name}: {told}; told {verdict['status']}: {', '.join(named) or 'nobody'}"


def _where(fault: Injected) -> str:
    if fault.link is not None:
        return fault.link
    return f"rank {fault.ranks[0]}" if fault.scope == "rank" else fault.nodes[0]


def _place(culprit: Mapping[str, Any]) -> str:
    if culprit["rank"] is not None:
        return f"rank {culprit['rank']}"
    return str(culprit["node"] or culprit["link"])


def _percent(effect: float | None) -> str:
    return "ends the run" if effect is None else f"steps {100 * effect:.0f} % longer"
