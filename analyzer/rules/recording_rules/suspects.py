"""What the recording rules single out: suspects, what their strata have in common, who answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.analyzer.read.archive.files import ANSWERED_KEY, number, part, whole
from lockstep.analyzer.rules.recording_rules.signals import OWN, Signal
from lockstep.collector.contract.robust import MAD_TO_SIGMA

Place = tuple[str, str, str]
"""(run, pp, tp): a stratum, its labels as they are."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank that is unlike its peers, or that stopped; ids that do not apply are None.

    Attributes:
        z: Signal -> robust standard deviations from the stratum's median.
        slowdown: Own time over the stratum's median; None where own time is like the peers'.
        stopped: It is gone, frozen, or stuck outside every collective.
    """

    run: str
    rank: int
    dp: int | None
    pp: str
    tp: str
    node: str
    gpu: int | None
    uuid: str | None
    z: Mapping[str, float] = field(default_factory=dict)
    slowdown: float | None = None
    stopped: bool = False

    @property
    def stratum(self) -> Place:
        """Whom it is compared with."""
        return self.run, self.pp, self.tp

    @property
    def severity(self) -> tuple[bool, float, float]:
        """For sorting, the worst last: stopped, slow, then unlike in any signal."""
        return self.stopped, self.slowdown or 0.0, max(map(abs, self.z.values()), default=0.0)


@dataclass(frozen=True, slots=True)
class Level:
    """What a stratum has in common in one signal: the last that was recorded."""

    count: int
    median: float
    mad: float

    def spread(self, signal: Signal) -> float:
        """The denominator of z (rules.spread), in the signal's unit."""
        return MAD_TO_SIGMA * self.mad + signal.share * abs(self.median) + signal.floor


@dataclass(frozen=True, slots=True)
class Answered:
    """How many of a run's ranks told the rules of their steps, of how many there should be."""

    told: float
    expected: int

    @property
    def coverage(self) -> float:
        """A share, 0 to 1."""
        return min(1.0, self.told / self.expected) if self.expected else 0.0


def answered_of(meta: Mapping[str, Any]) -> Answered | None:
    """What run.json says of a run that was read in part; None where all of it was read."""
    told = part(meta, ANSWERED_KEY)
    known, expected = number(told.get("told")), whole(told.get("expected"))
    return None if known is None or known < 0 or not expected else Answered(known, expected)


@dataclass(frozen=True, slots=True)
class Survey:
    """The answer of the rules about one or all runs.

    Attributes:
        suspects: The worst first.
        levels: signal -> stratum -> Level.
        answered: run -> how many told.
        limit: |z| from which a rank is a suspect.
        cut: run and signal of which more deviate than were asked for.
    """

    suspects: tuple[Suspect, ...]
    levels: Mapping[str, Mapping[Place, Level]]
    answered: Mapping[str, Answered]
    limit: float
    cut: tuple[tuple[str, str], ...] = ()

    def slowest_unseen(self, run: str) -> float | None:
        """The slowdown that a rank of this run may have without being a suspect; None = unknown."""
        found = [
            1.0 + self.limit * level.spread(OWN) / level.median
            for place, level in self.levels.get(OWN.name, {}).items()
            if place[0] == run and level.median > 0
        ]
        return max(found, default=None)
