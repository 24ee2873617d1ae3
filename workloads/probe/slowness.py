"""Which links are slow: against the usual link, and beyond what this machine's scheduling adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from workloads.probe.pairs import Pair
from workloads.probe.times import LinkTimes, Timing

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
    ways = [way for one in links.values() for way in (one.there, one.back)]
    return (
        _reference("latency", [one.latency for one in links.values()]),
        _reference("transfer", ways),
    )


def slow_links(links: Mapping[Pair, LinkTimes]) -> dict[Pair, Slowness]:
    """Those that are slow in at least one probe."""
    compared = references(links)
    found: dict[Pair, Slowness] = {}
    for pair, one in links.items():
        seen = [
            Slowness(reference.probe, seconds, reference.usual)
            for reference in compared
            if reference.is_slower(seconds := _seconds(one, reference.probe), reference.usual)
        ]
        if seen:
            found[pair] = max(seen, key=lambda slowness: slowness.ratio)
    return found


def _seconds(link: LinkTimes, probe: str) -> float:
    return (link.latency if probe == "latency" else link.transfer).least


def _reference(probe: str, timings: Sequence[Timing]) -> Reference:
    ordered = sorted(one.least for one in timings)
    noise = median(one.spread for one in timings)
    return Reference(probe, ordered[0], ordered[(len(ordered) - 1) // 4], noise)
