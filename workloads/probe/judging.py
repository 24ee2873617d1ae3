"""From the times of links to the slow link or node; pure, so that every rank decides alike.

What looks slow is measured again, and its fastest round counts: a process that was not scheduled
looks slow once, a bad link each time.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from workloads.probe.pairs import Pair, Round, covering, packed
from workloads.probe.slowness import SLOW, Slowness, references, slow_links
from workloads.probe.times import History, fastest

CONFIRMATIONS = 2
"""Rounds in which what looks slow is measured again: with ceil(log2(nodes)) rounds for all links
no more than 2 · ceil(log2(nodes)) from 3 nodes on."""
NODE_SHARE = 0.75
"""Of the links of a node that are slow when the node is; two bad links do not make a node of 5."""


class Kind(StrEnum):
    """What was found."""

    NONE = "none"
    LINK = "link"
    NODE = "node"
    SEVERAL = "several"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Culprit:
    """A slow link (two nodes) or a slow node (one, with its link of the median ratio)."""

    nodes: tuple[int, ...]
    slowness: Slowness


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The answer, after so many rounds."""

    kind: Kind
    culprits: tuple[Culprit, ...]
    rounds: int
    text: str


def next_round(nodes: int, history: History) -> Round:
    """What to measure next; empty once `decide` has all it needs."""
    rounds = covering(nodes)
    if len(history) < len(rounds):
        return rounds[len(history)]
    if nodes < 3 or len(history) - len(rounds) >= CONFIRMATIONS:
        return ()
    return packed(slow_links(fastest(history)))


def decide(nodes: int, history: History) -> ProbeResult:
    """The slow links and nodes after the last round."""
    rounds, links = len(history), fastest(history)
    if nodes < 3:
        text = f"{nodes} nodes have one link at most: there is no other to compare it with"
        return ProbeResult(Kind.UNKNOWN, (), rounds, text)
    uneven = [one.probe for one in references(links) if one.is_uneven]
    if uneven:
        text = (
            f"the {' and '.join(uneven)} of the fastest quarter of the links differs by {SLOW:g}x"
            " and more: nobody can say which of them are the usual ones"
        )
        return ProbeResult(Kind.UNKNOWN, (), rounds, text)
    culprits = _culprits(nodes, slow_links(links))
    if not culprits:
        first = slow_links(fastest(history[: len(covering(nodes))]))
        doubt = f"; {len(first)} looked so once, and not when measured again" if first else ""
        text = f"no link is {SLOW:g}x slower than the usual one{doubt}"
        return ProbeResult(Kind.NONE, (), rounds, text)
    text = "; ".join(_sentence(one) for one in culprits)
    return ProbeResult(_kind(culprits), culprits, rounds, text)


def _culprits(nodes: int, slow: Mapping[Pair, Slowness]) -> tuple[Culprit, ...]:
    """Nodes first: their links are not named beside them."""
    left = dict(slow)
    named: list[Culprit] = []
    while left:
        worst = max(range(nodes), key=lambda node: sum(node in pair for pair in left))
        mine = [one for pair, one in left.items() if worst in pair]
        if len(mine) < max(2, math.ceil(NODE_SHARE * (nodes - 1 - len(named)))):
            break
        mine.sort(key=lambda one: one.ratio)
        named.append(Culprit((worst,), mine[len(mine) // 2]))
        left = {pair: one for pair, one in left.items() if worst not in pair}
    links = [Culprit(pair, one) for pair, one in left.items()]
    return (*named, *sorted(links, key=lambda one: -one.slowness.ratio))


def _kind(culprits: tuple[Culprit, ...]) -> Kind:
    if len(culprits) > 1:
        return Kind.SEVERAL
    return Kind.NODE if len(culprits[0].nodes) == 1 else Kind.LINK


def _sentence(culprit: Culprit) -> str:
    nodes, one = culprit.nodes, culprit.slowness
    what = (
        f"node-{nodes[0]} is slow to its peers (its network card, or the host itself)"
        if len(nodes) == 1
        else f"the link between node-{nodes[0]} and node-{nodes[1]} is slow"
    )
    return (
        f"{what}: {one.probe} {1e3 * one.seconds:.3g} ms where {1e3 * one.usual:.3g} ms is usual,"
        f" {one.ratio:.1f}x"
    )
