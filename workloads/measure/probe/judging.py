"""From the times of links to the slow link or node; pure, so that every rank decides alike.

What looks slow is measured again, and its fastest round counts: a process that was not scheduled
looks slow once, a bad link each time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from lockstep.workloads.measure.probe.links import (
    History,
    LinkTimes,
    Pair,
    Round,
    Timing,
    covering,
    fastest,
    packed,
)

SLOW = 1.5
"""A link is slow from so many times the usual on, if the difference is also clearly above noise."""
CLEARLY = 3.0
"""Times the noise, which is how far the median of a link's repetitions is above their least.

Measured with 8 ranks on 2 cores: healthy links differ by up to 4x in latency (30 to 150 us) and 5x
in transfers of 1 MiB (0.3 to 2 ms), and two ranks that share a core for some seconds stay 2x apart
in every round; but the noise is 0.03 to 0.3 and 0.3 to 1.3 ms, and three times that is above all of
it. With a core a rank the noise is a few microseconds, and the ratio decides.
"""


@dataclass(frozen=True, slots=True)
class Slowness:
    """How slow a link is in the probe in which it is furthest off.

    Attributes:
        probe: `latency` or `transfer`.
        seconds: Of this link.
        usual: Seconds of the usual link.
    """

    probe: str
    seconds: float
    usual: float

    @property
    def ratio(self) -> float:
        """Seconds over the usual."""
        return self.seconds / self.usual


@dataclass(frozen=True, slots=True)
class Reference:
    """The links of one probe among themselves.

    Attributes:
        lowest: Least seconds of all links.
        usual: Their lower quartile: 3 of 8 nodes may be slow, and it is still a healthy link.
        noise: Seconds that the machine adds to half of all repetitions, median over links.
    """

    probe: str
    lowest: float
    usual: float
    noise: float

    def is_slower(self, seconds: float, than: float) -> bool:
        """Whether one time is longer than another one, noise apart."""
        return seconds >= SLOW * than and seconds - than > CLEARLY * self.noise

    @property
    def is_uneven(self) -> bool:
        """Whether even the fast links differ, so that none of them is usual."""
        return self.is_slower(self.usual, self.lowest)


def references(links: Mapping[Pair, LinkTimes]) -> tuple[Reference, Reference]:
    """Of latency and transfer; a transfer is one direction."""
    ways = [way for link in links.values() for way in (link.there, link.back)]
    return (
        _reference("latency", [link.latency for link in links.values()]),
        _reference("transfer", ways),
    )


def slow_links(links: Mapping[Pair, LinkTimes]) -> dict[Pair, Slowness]:
    """Those that are slow in at least one probe."""
    compared = references(links)
    slow: dict[Pair, Slowness] = {}
    for pair, one in links.items():
        seen = [
            Slowness(reference.probe, seconds, reference.usual)
            for reference in compared
            if reference.is_slower(seconds := _seconds(one, reference.probe), reference.usual)
        ]
        if seen:
            slow[pair] = max(seen, key=lambda slowness: slowness.ratio)
    return slow


def _seconds(link: LinkTimes, probe: str) -> float:
    return (link.latency if probe == "latency" else link.transfer).least


def _reference(probe: str, timings: Sequence[Timing]) -> Reference:
    ordered = sorted(timing.least for timing in timings)
    noise = median(timing.spread for timing in timings)
    return Reference(probe, ordered[0], ordered[(len(ordered) - 1) // 4], noise)


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
    uneven = [reference.probe for reference in references(links) if reference.is_uneven]
    if uneven:
        text = (
            f"the {' and '.join(uneven)} of the fastest quarter of the links differs by {SLOW:g}x"
            " and more: which of them are the usual ones is unknown"
        )
        return ProbeResult(Kind.UNKNOWN, (), rounds, text)
    culprits = _culprits(nodes, slow_links(links))
    if not culprits:
        first = slow_links(fastest(history[: len(covering(nodes))]))
        doubt = f"; {len(first)} looked so once, and not when measured again" if first else ""
        text = f"no link is {SLOW:g}x slower than the usual one{doubt}"
        return ProbeResult(Kind.NONE, (), rounds, text)
    text = "; ".join(_sentence(culprit) for culprit in culprits)
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
