"""What is remembered of a run: where it lived, who saw it last, and how it ended.

A run lives while one of its ranks does. What ended may be told of again, be started again, or have
another run in its place.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from lockstep.analyzer.findings.finding import Kind, WatchFinding
from lockstep.watch.look.members import clock

FORGET_SECONDS = 86_400.0
NEVER_AGAIN: Mapping[str, float] = MappingProxyType({})
"""No run made a step after it stood."""


class How(StrEnum):
    """How a run ended; of one that vanished nobody told that, or not of all its ranks.

    One that was stopped was ended from outside: ranks that lose a peer by that have no fault.
    """

    CLEAN = "clean"
    STOPPED = "stopped"
    DIED = "died"
    VANISHED = "vanished"


class Heard(StrEnum):
    """What became of the pages of a run that vanished; all that answer do not know its ranks."""

    ANSWER = "answer"
    UNREACHED = "unreached"
    UNTOLD = "untold"


class Place(NamedTuple):
    """Where a rank lived; GPU -1 = none."""

    node: str
    gpu: int


@dataclass(frozen=True, slots=True)
class End:
    """The end of a run.

    Attributes:
        when: Unix seconds of the last sight of one of its ranks alive; `gone` where nobody had one.
        how: As it should, or not.
        first: Ranks that went before all others; empty = that cannot be told, or needs not be.
        by_scrapes: Whether scrapes saw them go first; else they said nothing where others did.
        states: Word of RankState -> how many ranks said it last; "" = those that said nothing.
        heard: What became of its pages, of one that vanished: the least of it.
        noticed: Unix seconds of the look that found it; 0 = at once.
        gone: Unix seconds of the first sight of its ranks gone, where sights before were missed;
            inf = it was gone at the first sight after `when`, as far as anybody saw.
        told: Whether a finding says that it stopped.
    """

    when: float
    how: How
    first: tuple[int, ...] = ()
    by_scrapes: bool = False
    states: Mapping[str, int] | None = None
    heard: Heard = Heard.ANSWER
    noticed: float = 0.0
    gone: float = math.inf
    told: bool = False

    @property
    def clock(self) -> str:
        """When it was, for people."""
        if self.gone == math.inf:
            return f"at {clock(self.when)}"
        if self.when >= self.gone:
            return f"before {clock(self.gone)}"
        return f"between {clock(self.when)} and {clock(self.gone)}"

    @property
    def open(self) -> bool:
        """Whether the run may live for all that is known: it was only lost sight of."""
        return self.how is How.VANISHED and not self.states and self.heard is not Heard.ANSWER


class Lost(NamedTuple):
    """Unix seconds from which a run was taken for vanished, and since which it no longer is."""

    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Life:
    """A run as it was seen last.

    Attributes:
        ranks: Rank -> where it lived.
        pages: (job, instance) of the pages that told of it.
        attempt: Restart count.
        seen: Unix seconds of the last look that saw one of its ranks alive.
        again: Unix seconds of the look that saw it alive after an end; 0 = it never ended before.
        end: How it ended; None = it lives, or nobody can tell.
        heir: The run that was first seen at its place after its end; "" = none was.
        first: Unix seconds of the look that saw it first; 0 = that is not known.
        lost: When sight of it was lost last, if it was found again since.
    """

    ranks: Mapping[int, Place]
    pages: frozenset[tuple[str, str]]
    attempt: int
    seen: float
    again: float = 0.0
    end: End | None = None
    heir: str = ""
    first: float = 0.0
    lost: Lost | None = None

    def found(self, now: float) -> "Life":
        """It is told of again, and nothing that was open before it was lost is over by that."""
        since = self.seen if self.end is None else self.end.noticed or self.end.when
        return replace(self, end=None, heir="", lost=Lost(since, now))

    def stopped_by(self, finding: WatchFinding, went_on: float = 0.0) -> bool:
        """Whether a finding says what stopped it, and not what is over: its life or loss before.

        Args:
            finding: An open one.
            went_on: Unix seconds since which it made steps again; 0 = it did not.
        """
        if finding.kind is not Kind.STOP or finding.opened < self.again:
            return False
        first = () if self.end is None else self.end.first
        if finding.opened < went_on and finding.who.rank not in (None, *first):
            return False  # it went on, and another ended it
        return self.lost is None or not self.lost.since <= finding.opened < self.lost.until


def lived(
    known: Life | None,
    ranks: Mapping[int, Place],
    pages: frozenset[tuple[str, str]],
    attempt: int,
    now: float,
) -> Life:
    """A run of which a rank is alive now; ranks that are not told of any more stay known.

    Args:
        known: As it was seen before.
        ranks: Those that are told of, alive or gone.
        pages: Who tells of them.
        attempt: Restart count.
        now: Unix seconds.
    """
    if known is None:
        return Life(ranks, pages, attempt, now, first=now)
    if known.end is not None and known.end.open and attempt == known.attempt:
        known = known.found(now)
    if known.end is not None or attempt > known.attempt:
        again = now if known.end is not None else known.again
        return Life(ranks, pages, attempt, now, again, first=known.first)
    if known.ranks != ranks and not known.ranks.keys() <= ranks.keys():
        ranks = {**known.ranks, **ranks}
        pages = known.pages | pages
    return replace(known, ranks=ranks, pages=pages, attempt=attempt, seen=now)


def inherited(lives: Mapping[str, Life], living: Collection[str]) -> dict[str, Life]:
    """With the heirs of runs that ended.

    An heir that ends too, moves or is not told of for a while gives nothing back: what is over is
    over.

    Args:
        lives: Runs as they were seen last.
        living: Runs of which a rank is alive now.
    """
    taken: dict[Place, list[str]] = {}
    for run in sorted(living):
        for place in sorted(set(lives[run].ranks.values())) if run in lives else ():
            taken.setdefault(place, []).append(run)
    found = dict(lives)
    for run, life in lives.items():
        if life.end is not None and not life.heir and run not in living:
            # What lived there all along, or was found together with it, took no place.
            after = max(life.end.when, life.first)
            there = (one for place in life.ranks.values() for one in taken.get(place, ()))
            heir = next((h for h in there if (lives[h].again or lives[h].first) > after), "")
            found[run] = replace(life, heir=heir) if heir else life
    return found


def with_told(
    lives: Mapping[str, Life],
    findings: Iterable[WatchFinding],
    went_on: Mapping[str, float] = NEVER_AGAIN,
) -> dict[str, Life]:
    """Ends that a finding tells of are told, also once that finding is over.

    A run that stood, went on and ended then has an end of its own.

    Args:
        lives: Runs as they were seen last.
        findings: The open ones.
        went_on: Run -> unix seconds since which it made steps after it stood.
    """
    found = dict(lives)
    for one in findings:
        life = found.get(one.who.run)
        if (
            life is not None
            and life.end is not None
            and life.stopped_by(one, went_on.get(one.who.run, 0.0))
        ):
            found[one.who.run] = replace(life, end=replace(life.end, told=True))
    return found


def remembered(lives: Mapping[str, Life], now: float) -> dict[str, Life]:
    """Without runs that nobody saw alive for a day."""
    return {run: one for run, one in lives.items() if now - one.seen < FORGET_SECONDS}
