"""The culprits that are the ranks of one node, leaf or rack -> one culprit."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lockstep.analyzer.operations.evidence import LATE_QUERY
from lockstep.analyzer.shapes.run import Culprit, Fact, Finding, Grid
from lockstep.analyzer.shapes.wording import NAMED
from lockstep.analyzer.stats.shared_part import Part
from lockstep.analyzer.stragglers.imbalance import node_of

PLACE = re.compile(r'(rank|gpu|uuid|node)="[^"]*"')
OWN_QUERY = "own_seconds of steps.parquet by rank, median by node"
HANG_QUERY = "lockstep_train_enqueued_sequence - lockstep_train_completed_sequence"


def together(
    grid: Grid, findings: Sequence[Finding], culprits: Sequence[Culprit]
) -> tuple[Culprit, ...]:
    """The culprits, those of one node, leaf or rack as one, in place of their first.

    A power brake of a supply, hot air or a bad leaf slows every node behind it
    (docs/method/causes.md); draining one of them mends nothing. Whether it is the rank, the node or
    the part, the search told (lockstep.analyzer.stragglers.model.effects).

    Args:
        grid: The run's windows.
        findings: `findings[i]` accuses `culprits[i]`.
        culprits: Ranks and links.
    """
    by_part: dict[object, dict[object, list[Culprit]]] = {}
    for place, (finding, one) in enumerate(zip(findings, culprits, strict=True)):
        node, part = node_of(finding), finding.details.get("part")
        where = (node, finding.kind) if node is not None else place
        nodes = by_part.setdefault(part or where, {})
        nodes.setdefault(where, []).append(one)
    everybody = len({info.node for info in grid.ranks})
    told = []
    for part, nodes in by_part.items():
        some = [_node(grid, ranks) if len(ranks) > 1 else ranks[0] for ranks in nodes.values()]
        told.append(_part(some, part, everybody) if isinstance(part, Part) else some[0])
    return tuple(told)


def _node(grid: Grid, ranks: Sequence[Culprit]) -> Culprit:
    every = sum(info.node == ranks[0].node for info in grid.ranks)
    facts = said_once({int(one.rank or 0): one.evidence for one in ranks})
    return replace(_one(ranks), scope="node", evidence=(_all(ranks, every), *facts))


def _part(alike: Sequence[Culprit], part: Part, everybody: int) -> Culprit:
    worst = max(alike, key=lambda each: each.slowdown or 0.0)
    slow = sorted({str(each.node) for each in alike})
    names = ", ".join(slow[:NAMED]) + (", ..." if len(slow) > NAMED else "")
    text = (
        f"{names} are slow in the same steps: all {len(slow)} nodes of {part} in this run, and none"
        f" of the other {everybody - len(slow)}"
    )
    firsts = (each.evidence[0] for each in alike if each.evidence)
    evidence = (Fact(True, text, "topology.toml"), *firsts, *worst.evidence[1:])
    return replace(_one(alike), scope="rack", node=None, link=str(part), evidence=evidence)


def _one(alike: Sequence[Culprit]) -> Culprit:
    """Their middle in slowdown and cause, the earliest in time."""
    first = min(alike, key=lambda one: one.from_step if one.from_step is not None else 0)
    slowdowns = [one.slowdown for one in alike if one.slowdown is not None]
    bounds = [one.slowdown_interval for one in alike if one.slowdown_interval is not None]
    ends, known = (
        [step for step in steps if step is not None]
        for steps in ([one.to_step for one in alike], [one.known_to_step for one in alike])
    )
    interval = None
    if bounds:
        low, high = np.median(np.array(bounds), axis=0)
        interval = (float(low), float(high))
    return replace(
        first,
        rank=None, gpu=None, uuid=None, dp=None, pp=None, tp=None,
        to_step=max(ends) if len(ends) == len(alike) else None,
        known_to_step=max(known) if len(known) == len(alike) else None,
        slowdown=float(np.median(slowdowns)) if slowdowns else None,
        slowdown_interval=interval,
        confidence=float(np.median([one.confidence for one in alike])),
        # That it is all of them is as sure as that it is any of them.
        place_confidence=max(one.place_confidence or 0.0 for one in alike),
        tier="page" if any(one.tier == "page" for one in alike) else "record",
    )  # fmt: skip


def said_once(facts: Mapping[int, Sequence[Fact]]) -> tuple[Fact, ...]:
    """The facts of several ranks, each kind once: the first rank's, and who else shows it.

    Facts are of a kind when they answer the same query but for the rank, on the same side. That
    the run waits for another rank of the node speaks not against the node.
    """
    waited_for = any(
        fact.supports and fact.query == LATE_QUERY for mine in facts.values() for fact in mine
    )
    kinds: dict[tuple[str, bool, int], list[tuple[int, Fact]]] = {}
    for rank, mine in facts.items():
        seen: dict[tuple[str, bool], int] = {}
        for fact in mine:
            if waited_for and fact.query == LATE_QUERY and not fact.supports:
                continue
            key = (PLACE.sub(r"\1", fact.query), fact.supports)
            seen[key] = seen.get(key, 0) + 1
            kinds.setdefault((*key, seen[key]), []).append((rank, fact))
    return tuple(_said(alike) for alike in kinds.values())


def _said(alike: Sequence[tuple[int, Fact]]) -> Fact:
    rank, fact = alike[0]
    others = [other for other, _ in alike[1:]]
    if others and all(each.text == fact.text for _, each in alike):
        return replace(fact, text=f"{_ranks([rank, *others])}: {fact.text}")
    text = fact.text if fact.text.startswith(f"rank {rank} ") else f"rank {rank}: {fact.text}"
    return replace(fact, text=f"{text}; alike on {_ranks(others)}" if others else text)


def _all(ranks: Sequence[Culprit], of: int) -> Fact:
    """What makes it the node's, which has `of` ranks: who, and how slow each."""
    node, names = ranks[0].node, sorted(int(one.rank or 0) for one in ranks)
    if ranks[0].slowdown is None:
        text = f"{_ranks(names)}, all the ranks of {node} in this run, stopped alike"
        return Fact(True, text, HANG_QUERY)
    last_begin = max(one.from_step or 0 for one in ranks)
    in_turn = any(one.to_step is not None and one.to_step <= last_begin for one in ranks)
    told = sorted(ranks, key=lambda one: int(one.rank or 0))[:NAMED]
    each = ", ".join(
        f"rank {one.rank} {one.slowdown:.2f}x from step {one.from_step}"
        + (f" to {one.to_step}" if in_turn and one.to_step is not None else "")
        for one in told
    )
    more = f" and {len(ranks) - NAMED} more" if len(ranks) > NAMED else ""
    who = f"all {len(ranks)}" if len(ranks) >= of else f"{len(ranks)} of {of}"
    how = "in turn" if in_turn else "in the same steps"
    return Fact(True, f"{who} ranks of {node} are slow {how}: {each}{more}", OWN_QUERY)


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) > NAMED:
        return f"{len(ranks)} ranks of the node"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
