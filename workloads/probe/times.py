"""What was measured of a link."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lockstep.workloads.probe.pairs import Pair


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of some repetitions of one transfer.

    Attributes:
        least: The link's own time: what a process that is not scheduled adds is not in it.
        median: How far it is above `least` is how much else decides on this machine.
    """

    least: float
    median: float

    @property
    def spread(self) -> float:
        """Seconds that the machine adds to half of the repetitions."""
        return self.median - self.least


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """One link.

    Attributes:
        latency: Half a round trip of a small message.
        there: A large message from the lower node to the higher, and a small answer.
        back: The same from the higher node to the lower.
    """

    latency: Timing
    there: Timing
    back: Timing

    @property
    def transfer(self) -> Timing:
        """The slower direction."""
        return max(self.there, self.back, key=lambda one: one.least)


History = Sequence[Mapping[Pair, LinkTimes]]
"""What each round so far measured."""


def fastest(history: History) -> dict[Pair, LinkTimes]:
    """Of each link the fastest timings of all rounds."""
    found: dict[Pair, LinkTimes] = {}
    for measured in history:
        for pair, now in measured.items():
            known = found.get(pair, now)
            found[pair] = LinkTimes(
                _faster(known.latency, now.latency),
                _faster(known.there, now.there),
                _faster(known.back, now.back),
            )
    return found


def _faster(one: Timing, other: Timing) -> Timing:
    return one if one.least <= other.least else other
