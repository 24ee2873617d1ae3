"""The culprits that are the ranks of one node -> one culprit: the node."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from analyzer.culprits.slow_nodes import node_of
from analyzer.run import Culprit, Fact, Finding
from analyzer.trace_verdict.words import LATE_QUERY

PLACE = re.compile(r'(rank|gpu|uuid|node)="[^"]*"')
OWN_QUERY = "own_seconds of steps.parquet by rank, median by node"
HANG_QUERY = "lockstep_train_enqueued_sequence - lockstep_train_completed_sequence"
NAMED = 8
"""Ranks of a node told one by one; more are counted."""


def whole_nodes(findings: Sequence[Finding], culprits: Sequence[Culprit]) -> tuple[Culprit, ...]:
    """The culprits, those whose findings are about one node as one, in place of their first.

    Args:
        findings: `findings[i]` accuses `culprits[i]`.
        culprits: Ranks and links.
    """
    together: dict[object, list[Culprit]] = {}
    for place, (finding, culprit) in enumerate(zip(findings, culprits, strict=True)):
        node = node_of(finding)
        key = place if node is None else (node, finding.kind)
        together.setdefault(key, []).append(culprit)
    return tuple(_node(some) if len(some) > 1 else some[0] for some in together.values())


def _node(ranks: Sequence[Culprit]) -> Culprit:
    """Their middle in slowdown, the earliest in time, and what each of them showed."""
    first = min(ranks, key=lambda one: one.from_step if one.from_step is not None else 0)
    slowdowns = [one.slowdown for one in ranks if one.slowdown is not None]
    bounds = [one.slowdown_interval for one in ranks if one.slowdown_interval is not None]
    ends = [one.to_step for one in ranks if one.to_step is not None]
    interval = None
    if bounds:
        low, high = np.median(np.array(bounds), axis=0)
        interval = (float(low), float(high))
    return replace(
        first,
        scope="node",
        rank=None, gpu=None, uuid=None, dp=None, pp=None, tp=None,
        to_step=max(ends) if len(ends) == len(ranks) else None,
        slowdown=float(np.median(slowdowns)) if slowdowns else None,
        slowdown_interval=interval,
        confidence=float(np.median([one.confidence for one in ranks])),
        # That it is the node is as sure as that it is any of its ranks.
        place_confidence=max(one.place_confidence or 0.0 for one in ranks),
        tier="page" if any(one.tier == "page" for one in ranks) else "record",
        evidence=(_all(ranks), *said_once({int(one.rank or 0): one.evidence for one in ranks})),
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


def _all(ranks: Sequence[Culprit]) -> Fact:
    """What makes it the node's: who, and how slow each."""
    node, names = ranks[0].node, sorted(int(one.rank or 0) for one in ranks)
    if ranks[0].slowdown is None:
        text = f"{_ranks(names)}, all the ranks of {node} in this run, stopped alike"
        return Fact(True, text, HANG_QUERY)
    told = sorted(ranks, key=lambda one: int(one.rank or 0))[:NAMED]
    each = ", ".join(
        f"rank {one.rank} {one.slowdown:.2f}x from step {one.from_step}" for one in told
    )
    more = f" and {len(ranks) - NAMED} more" if len(ranks) > NAMED else ""
    text = f"all {len(ranks)} ranks of {node} are slow in the same steps: {each}{more}"
    return Fact(True, text, OWN_QUERY)


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) > NAMED:
        return f"{len(ranks)} ranks of the node"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
