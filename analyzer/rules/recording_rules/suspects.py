"""The answers of the recording rules: suspects, levels of their strata, who answered."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.analyzer.read.archive import files
from lockstep.analyzer.rules.recording_rules.signals import OWN, SIGNALS, Signal
from lockstep.analyzer.shapes.labels import number
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
    """How many of a run's ranks the rules know, of how many there should be."""

    known: float
    expected: int

    @property
    def coverage(self) -> float:
        """A share, 0 to 1."""
        return min(1.0, self.known / self.expected) if self.expected else 0.0


def answered_of(meta: Mapping[str, Any]) -> Answered | None:
    """What run.json says of a run that was read in part; None where all of it was read."""
    told = files.part(meta, files.ANSWERED_KEY)
    known, expected = files.number(told.get("told")), files.whole(told.get("expected"))
    return None if known is None or known < 0 or not expected else Answered(known, expected)


@dataclass(frozen=True, slots=True)
class Survey:
    """The answer of the rules about one or all runs.

    Attributes:
        suspects: The worst first.
        levels: signal -> stratum -> Level.
        answered: run -> how many reported.
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


Labels = Mapping[str, str]
Answer = Iterable[tuple[Labels, float]]
Found = dict[tuple[str, int], Suspect]
"""Suspects by (run, rank)."""


def levels_of(answer: Answer) -> dict[str, dict[Place, Level]]:
    """Signal -> stratum -> Level, where all three of its parts are there."""
    parts: dict[tuple[str, Place], dict[str, float]] = {}
    for labels, value in answer:
        _, _, rest = labels.get("__name__", "").partition(":")
        name, _, suffix = rest.rpartition(":")
        place = labels.get("run", ""), labels.get("pp", ""), labels.get("tp", "")
        if math.isfinite(value):
            parts.setdefault((name, place), {})[suffix] = value
    found: dict[str, dict[Place, Level]] = {signal.name: {} for signal in SIGNALS}
    for (name, place), values in parts.items():
        if name in found and {"count", "med", "mad"} <= values.keys():
            found[name][place] = Level(int(values["count"]), values["med"], values["mad"])
    return found


def answered_by_run(counted: Answer, expected: Answer) -> dict[str, Answered]:
    """Run -> how many reported, of how many."""
    counts = {labels.get("run", ""): count for labels, count in counted}
    worlds: dict[str, int] = {}
    for labels, placed in expected:
        run = labels.get("run", "")
        # A world size that is no number is a page's mistake: then as many as have a place.
        world = number(labels, "world_size") or int(placed)
        worlds[run] = max(worlds.get(run, 0), world)
    return {run: Answered(counts.get(run, 0.0), world) for run, world in worlds.items()}


def suspect(labels: Labels, z: Mapping[str, float], *, stopped: bool = False) -> Suspect | None:
    """The rank that the labels are of, or None where they are of none."""
    rank = number(labels, "rank")
    if rank is None:
        return None
    return Suspect(
        run=labels.get("run", ""), rank=rank, dp=number(labels, "dp"), pp=labels.get("pp", ""),
        tp=labels.get("tp", ""), node=labels.get("node", ""), gpu=number(labels, "gpu"),
        uuid=labels.get("uuid") or None, z=z, stopped=stopped,
    )  # fmt: skip


def add(suspects: Found, suspected: Suspect | None) -> None:
    """Joins what is known of a rank; where it has two places, that of the worse word stays."""
    if suspected is None:
        return
    key = suspected.run, suspected.rank
    known = suspects.get(key)
    if known is None:
        suspects[key] = suspected
        return
    worse, other = (suspected, known) if suspected.severity > known.severity else (known, suspected)
    z = dict(other.z)
    for name, value in worse.z.items():
        z[name] = max(value, z.get(name, 0.0), key=abs)
    slowdowns = [each.slowdown for each in (suspected, known) if each.slowdown is not None]
    suspects[key] = dataclasses.replace(
        worse,
        z=z,
        slowdown=max(slowdowns, default=None),
        stopped=suspected.stopped or known.stopped,
    )


def tell_slowdowns(suspects: Found, run: str, answer: Answer) -> None:
    """Gives suspects of a run their slowdown, as `queries.slowdowns` answers it."""
    for labels, ratio in answer:
        rank = number(labels, "rank")
        one = None if rank is None else suspects.get((run, rank))
        if one is not None and math.isfinite(ratio):
            known = one.slowdown or 0.0
            suspects[one.run, one.rank] = dataclasses.replace(one, slowdown=max(ratio, known))


def worst_first(suspects: Found) -> tuple[Suspect, ...]:
    """By severity; equals in rank order."""
    ordered = sorted(suspects.values(), key=lambda one: (one.run, one.rank))
    return tuple(sorted(ordered, key=lambda one: one.severity, reverse=True))
