"""What is remembered of a run: its progress, where it lived, who saw it last, how it ended.

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

HOUR = 3600.0
STALL_SECONDS = 60.0
STALL_STEPS = 10.0
"""A run without a step for the longer of both stands still
(deploy/runbooks/LockstepRunStalled.md)."""
PAUSES = 1.5
"""Or for so many times its longest pause before: a checkpoint, an evaluation."""
LONGEST_PAUSE_SECONDS = 600.0
"""What lasts longer teaches nothing: NCCL's watchdog ends by default what hangs for ten minutes
(torch.distributed.init_process_group, timeout)."""
FORGET_PROGRESS_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What is remembered of a run.

    Attributes:
        steps: The most that any rank has done.
        since: Unix seconds of the check at which that was first seen.
        step_seconds: The last that was known.
        best: Steps per second of its best whole hour without a finding; None = none yet.
        hour: Unix seconds at which the hour under way began.
        total, count: Sum and number of steps per second told in that hour.
        seen: Unix seconds of the last check.
        begun: Unix seconds of the first check that told of it; 0 = it was there before.
        longest: Seconds of its longest pause between two steps that it ended by itself.
        silence: Seconds of its longest time in which no rank began or ended anything, likewise.
        went_on: Unix seconds of the check before the last that saw more steps than the one before
            it: two of them prove that it moves, as pages are told of one after the other; 0 = not
            known.
    """

    steps: float
    since: float
    step_seconds: float | None = None
    best: float | None = None
    hour: float = 0.0
    total: float = 0.0
    count: int = 0
    seen: float = 0.0
    begun: float = 0.0
    longest: float = 0.0
    silence: float = 0.0
    went_on: float = 0.0

    def stands(self, now: float, times: float = 1.0) -> bool:
        """Whether no step came for (so many times) longer than a pause of it may take."""
        usual = STALL_STEPS * (self.step_seconds or 0.0)
        return now - self.since >= times * max(STALL_SECONDS, usual, PAUSES * self.longest)

    def stalled(self, now: float, times: float = 1.0) -> bool:
        """Whether it stands; a run that is yet to begin may take its time."""
        return self.step_seconds is not None and self.stands(now, times)

    def ratio(self, given: float | None) -> float | None:
        """Steps per second over a baseline's, or over the own best hour's; None = neither."""
        usual = self.best if given is None else given
        if usual is None or not self.step_seconds:
            return None
        return 1.0 / self.step_seconds / usual


def advanced(
    known: Progress | None, steps: float, step_seconds: float | None, healthy: bool, now: float
) -> Progress:
    """One check.

    Args:
        known: What was remembered.
        steps: The most that any rank has done.
        step_seconds: Of the last minutes; None = no step was told.
        healthy: Whether no finding about the run is open.
        now: Unix seconds.
    """
    if known is None:
        known = Progress(steps, now, hour=now, begun=now)
    # A resumed run counts from less; and the clock may have been put back.
    if steps < known.steps:
        known = replace(known, step_seconds=None)
    elif steps > known.steps and known.step_seconds is not None:
        # Up to the last check that saw it stand: nobody knows of the time in which none was made.
        pause = min(known.seen - known.since, LONGEST_PAUSE_SECONDS)
        known = replace(known, longest=max(pause, known.longest))
    if steps != known.steps or known.since > now:
        before = known.since if known.steps < steps and known.since <= now else 0.0
        known = replace(known, steps=steps, since=now, went_on=before)
    if step_seconds is not None:
        known = replace(known, step_seconds=step_seconds)
    if not healthy or now < known.hour:
        known = replace(known, hour=now, total=0.0, count=0)
    elif now - known.hour >= HOUR:
        mean = known.total / known.count if known.count else 0.0
        best = max(mean, known.best or 0.0) or None
        known = replace(known, best=best, hour=now, total=0.0, count=0)
    if healthy and step_seconds:
        known = replace(known, total=known.total + 1.0 / step_seconds, count=known.count + 1)
    return replace(known, seen=now)


def with_silences(
    runs: Mapping[str, Progress], longest: Mapping[str, float]
) -> dict[str, Progress]:
    """With the longest silences of runs, seconds."""
    return {
        run: replace(one, silence=max(one.silence, longest.get(run, 0.0)))
        for run, one in runs.items()
    }


def recent_runs(runs: Mapping[str, Progress], now: float) -> dict[str, Progress]:
    """Without the runs that nobody has told of for a day."""
    return {run: one for run, one in runs.items() if now - one.seen < FORGET_PROGRESS_SECONDS}


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
