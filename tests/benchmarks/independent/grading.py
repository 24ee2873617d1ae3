"""A verdict against the truth of a run: who is found, with which cause, who is named wrongly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.independent.faults import NETWORK_FAULTS

UNSEEN_PLACE = (*NETWORK_FAULTS, "nvlink")
"""Kinds whose place only sensors tell: in steps, all that share the link wait alike."""


@dataclass(frozen=True)
class FaultGrade:
    """What a verdict makes of one fault.

    Attributes:
        effect: Share by which steps are longer while it is there; None of one that ends the run.
        tellable: Whether anything in the archive tells where it is.
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
    name: str, truth: Mapping[str, Any], verdict: Mapping[str, Any], node_of: Mapping[int, str]
) -> RunGrade:
    """Of the JSON of both; `node_of` says where each rank stands."""
    culprits: Sequence[Mapping[str, Any]] = verdict["culprits"]
    faults, right = [], set[int]()
    for fault in truth["faults"]:
        hits = [number for number, culprit in enumerate(culprits) if _is(fault, culprit, node_of)]
        right.update(hits)
        slowdown = fault["step_slowdown_on"]
        faults.append(
            FaultGrade(
                kind=fault["kind"],
                effect=None if slowdown is None else slowdown - 1,
                tellable=fault["telemetry"] != "none" or fault["kind"] not in UNSEEN_PLACE,
                found=bool(hits),
                cause_right=any(culprits[hit]["cause"] == fault["cause"] for hit in hits),
            )
        )
    return RunGrade(
        line=_line(name, truth, verdict),
        injected=bool(truth["faults"]),
        faults=tuple(faults),
        named=len(culprits),
        right=len(right),
        told_healthy=verdict["status"] == "healthy",
    )


def _is(fault: Mapping[str, Any], culprit: Mapping[str, Any], node_of: Mapping[int, str]) -> bool:
    """Whether the culprit is the fault's place, or what holds it: its node, a link of its node."""
    rank, link = culprit["rank"], culprit["link"] or ""
    node = culprit["node"] or (None if rank is None else node_of.get(rank))
    on_node = node in fault["nodes"]
    on_link = any(name in link for name in fault["nodes"])
    if fault["scope"] == "rank":
        # Both ends of an NVLink are on the node, and either may be named.
        whole = rank is None or fault["kind"] == "nvlink"
        of_link = culprit["scope"] == "link" and on_link
        return rank == fault["rank"] or (whole and on_node) or of_link
    if fault["scope"] == "node":
        of_link = culprit["scope"] == "link" and on_link
        return (rank is None and on_node) or rank in fault["members"] or of_link
    return on_node or on_link or (bool(link) and link.split()[-1] == fault["link"])


def _line(name: str, truth: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
    injected = [
        f"{fault['kind']} of {fault['link'] or _place(fault)} ({fault['shape']}, sensors "
        f"{fault['telemetry']}, {_percent(fault['step_slowdown_on'])})"
        for fault in truth["faults"]
    ]
    named = [f"{each['cause']} of {_place(each)}" for each in verdict["culprits"]]
    told = " and ".join(injected) or truth["benign"] or "healthy"
    return f"simulated run {name}: {told}; told {verdict['status']}: {', '.join(named) or 'nobody'}"


def _place(told: Mapping[str, Any]) -> str:
    """Of a fault or a culprit."""
    if told["rank"] is not None:
        return f"rank {told['rank']}"
    return str(told["node"] or told["link"])


def _percent(slowdown: float | None) -> str:
    return "ends the run" if slowdown is None else f"steps {100 * (slowdown - 1):.0f} % longer"
