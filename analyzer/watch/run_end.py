"""How a run ended: as it should, without a clean close, or so that nobody tells of it any more.

A run lives while one of its ranks does. When the last is gone, what they said last decides: where
all finished, it ended as it should. Who went first is told by scrapes that saw one gone while the
others lived, else by who said nothing while others met an error; else nobody is named. A page that
fell silent may be a lost node or a lost collector: no synchronous run makes a step without a node.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from analyzer.run import Fact
from analyzer.watch.detections import clock
from analyzer.watch.finding import Detection, Kind, Tier, Who
from analyzer.watch.finding_lifecycle import Course
from collector.contract import metrics as m
from collector.contract.words import Cause, RankState

HOLD_SECONDS = m.RANK_GONE_SECONDS
"""So long the finding of an end stays open: as long as collectors tell of the ranks that are gone.
It ends sooner where the run, or another on its nodes, was started."""
FORGET_SECONDS = 86_400.0
MISSED_SCRAPES = 2.0
"""A page that did not answer for so many scrapes is silent."""
READ_SECONDS = 1.0
"""How old a page may be when it is scraped (collector.config, fast_period)."""
SURE, LIKELY = 0.95, 0.8
"""In the place: seen by scrapes; by what the ranks said last. Choices of ours."""
SILENT = frozenset({RankState.STARTING, RankState.RUNNING})
"""What a rank says last that ended without a word."""
MOST_NAMED = 8
"""Ranks in a sentence."""
UNTOLD_TIMES = 3.0
"""Where nobody says that pages are scraped, as behind a federation that takes no `up`, a run that
is told of no more is waited for so many times as long."""


class How(StrEnum):
    """How a run ended; of one that vanished nobody told that, or not of all its ranks.

    One that was stopped was ended from outside: ranks that lose a peer by that have no fault.
    """

    CLEAN = "clean"
    STOPPED = "stopped"
    DIED = "died"
    VANISHED = "vanished"


class Heard(StrEnum):
    """What became of the pages of a run that vanished."""

    ANSWER = "answer"
    MIXED = "mixed"
    UNREACHED = "unreached"
    UNTOLD = "untold"


class Place(NamedTuple):
    """Where a rank lived; GPU -1 = none."""

    node: str
    gpu: int


class Seen(NamedTuple):
    """Unix seconds of the last scrape that saw a rank alive, and of the first that saw it gone.

    A rank that was never seen alive has `-inf` there, one that was never seen gone `inf`.
    """

    alive: float
    gone: float


@dataclass(frozen=True, slots=True)
class End:
    """The end of a run.

    Attributes:
        when: Unix seconds of the last scrape that saw one of its ranks alive.
        how: As it should, or not.
        first: Ranks that went before all others; empty = that cannot be told, or needs not be.
        by_scrapes: Whether scrapes saw them go first; else they said nothing where others did.
        states: Word of RankState -> how many ranks said it last; "" = those that said nothing.
        heard: What became of its pages, of one that vanished: the least of it.
        noticed: Unix seconds of the look that found it; 0 = at once.
        before: Whether no scrape saw it alive; `when` is of the first then that saw it gone.
    """

    when: float
    how: How
    first: tuple[int, ...] = ()
    by_scrapes: bool = False
    states: Mapping[str, int] | None = None
    heard: Heard = Heard.ANSWER
    noticed: float = 0.0
    before: bool = False

    @property
    def clock(self) -> str:
        """When it was, for people."""
        return f"{'before' if self.before else 'at'} {clock(self.when)}"

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


def ended(
    life: Life,
    states: Mapping[int, str],
    seen: Mapping[int, Seen],
    scrape: float,
    now: float,
    stepped: float,
    *,
    heard: bool = True,
) -> End | None:
    """The end of a run none of whose ranks is alive; None = how it ended cannot be told yet.

    Args:
        life: As it was before.
        states: Rank -> what it said last, of those that are told to be gone.
        seen: Rank -> when it was seen alive last, and gone first.
        scrape: Seconds between two scrapes.
        now: Unix seconds.
        stepped: Unix seconds of the scrape that saw its last step; inf = nobody told of steps.
        heard: Whether a page tells of it still. Where all fell silent at once, collectors that
            belong to the run ended with it: then those that told speak for those that could not.
    """
    untold = life.ranks.keys() - states.keys()
    silent = {rank: seen[rank].alive for rank in untold if rank in seen}
    if not states or any(now - alive < MISSED_SCRAPES * scrape for alive in silent.values()):
        return None
    when, before = _when(life, seen, now)
    end = partial(End, when, before=before)
    finished = all(state == RankState.FINISHED for state in states.values())
    if finished and not untold:
        return end(How.CLEAN)
    every = life.ranks.keys() | states.keys()
    counts: dict[str, int] = {}
    for rank in every:
        state = states.get(rank, "")
        counts[state] = counts.get(state, 0) + 1
    if finished:
        near = when - MISSED_SCRAPES * scrape - READ_SECONDS
        at_once = not heard and all(silent.get(rank, -math.inf) >= near for rank in untold)
        return end(How.CLEAN if at_once else How.VANISHED, states=counts)
    late = stepped - MISSED_SCRAPES * scrape - READ_SECONDS
    went_on = {rank for rank in untold if silent.get(rank, -math.inf) < late}
    early = _earliest(every, seen, states, scrape, went_on)
    stopped = {rank for rank, state in states.items() if state == RankState.STOPPED}
    if early and not stopped.issuperset(early):
        return end(How.DIED, early, by_scrapes=True, states=counts)
    mute = {rank for rank in every if states.get(rank, RankState.RUNNING) in SILENT} - went_on
    # Who says nothing beside those that were ended from outside was gone before.
    if stopped and (early or not (mute or RankState.FAILED in counts)):
        return end(How.STOPPED, states=counts)
    first = tuple(sorted(mute)) if 0 < len(mute) < len(every) else ()
    return end(How.DIED, first, states=counts)


def _when(life: Life, seen: Mapping[int, Seen], now: float) -> tuple[float, bool]:
    """When a run ended, and whether it was before that: nobody saw it alive."""
    alive = max((one.alive for one in seen.values()), default=-math.inf)
    if math.isfinite(alive):
        return alive, False
    gone = min((one.gone for one in seen.values()), default=now)
    return min(life.seen, gone), life.seen >= gone


def _earliest(
    every: Collection[int],
    seen: Mapping[int, Seen],
    states: Mapping[int, str],
    scrape: float,
    went_on: Collection[int],
) -> tuple[int, ...]:
    """Ranks that were gone while all others were still seen alive.

    A process went between two scrapes, so one went before another for certain only where these
    spans do not overlap. A rank whose page fell silent may have lived on: it counts as gone once
    that page missed several scrapes, and never where the run went on. Or it was gone already, as
    pages may be old and clocks differ: it counts as alive until a scrape before its last.
    """
    alive = {
        rank: one.alive - (0.0 if rank in states else scrape + READ_SECONDS)
        for rank, one in seen.items()
    }
    gone = {
        rank: one.gone if math.isfinite(one.gone) else one.alive + MISSED_SCRAPES * scrape
        for rank, one in seen.items()
        if rank in every
    } | dict.fromkeys(went_on, math.inf)
    alive = dict.fromkeys(went_on, -math.inf) | alive
    if len(gone) < len(every) or len(gone) < 2:
        return ()
    order = sorted(gone, key=lambda rank: (alive[rank], rank))
    for count in range(1, len(order)):
        early, later = order[:count], order[count:]
        if max(gone[rank] for rank in early) <= min(alive[rank] for rank in later):
            return tuple(sorted(early))
    return ()


def detection(run: str, life: Life, end: End, facts: tuple[Fact, ...] = ()) -> Detection:
    """What is to be told of a run that ended without a clean close."""
    places = [life.ranks[rank] for rank in end.first if rank in life.ranks]
    nodes = {place.node for place in places}
    who, scope = Who(run, None, None, None, None), "run"
    if len(end.first) == 1 and places:
        gpu = places[0].gpu
        who = Who(run, places[0].node, end.first[0], None if gpu < 0 else gpu, None)
        scope = "rank"
    elif len(nodes) == 1 and len(places) == len(end.first):
        who, scope = Who(run, nodes.pop(), None, None, None), "node"
    noticed = any(state not in (*SILENT, "") for state in end.states or ())
    known = end.how is How.DIED and (bool(end.first) or noticed)
    certain = SURE if end.by_scrapes else LIKELY
    return Detection(
        who=who,
        kind=Kind.STOP,
        scope=scope,
        cause=str(Cause.CRASH if known else Cause.UNKNOWN),
        tier=Tier.PAGE if known else Tier.RECORD,
        confidence=certain if known else 0.0,
        sentence=_sentence(run, life, end),
        onset=end.when,
        sure=True,
        facts=(*facts, *_facts(end)),
        attempt=life.attempt,
        place_confidence=certain if end.first and scope != "run" else None,
    )


def _sentence(run: str, life: Life, end: End) -> str:
    if end.how is How.VANISHED and end.states:
        untold = end.states.get("", 0)
        return (
            f"Run {run} ended {end.clock}: the ranks that are told of finished, and of"
            f" {untold} of its {len(life.ranks)} nobody told the end; how it ended is not known."
        )
    if end.how is How.VANISHED:
        return f"Run {run} is told of no more since {clock(end.when)}: {HEARD[end.heard]}."
    count = len(life.ranks)
    if end.how is How.STOPPED:
        told = (end.states or {}).get(RankState.STOPPED, 0)
        which = f"{told} of its {count}" if told < count else f"all {count}"
        return (
            f"Run {run} was ended from outside {end.clock}, as by who deletes its pods:"
            f" {which} ranks say so."
        )
    head = f"Run {run} ended without a clean close {end.clock}"
    if not end.first:
        why = (
            "an error was met, and which rank met it first cannot be told"
            if any(state not in (*SILENT, "") for state in end.states or ())
            else f"all {count} ranks went together without a word, as when a scheduler ends a job"
        )
        return f"{head}: {why}."
    nodes = sorted({life.ranks[rank].node for rank in end.first if rank in life.ranks})
    named = ", ".join(map(str, end.first[:MOST_NAMED]))
    more = ", …" if len(end.first) > MOST_NAMED else ""
    ranks = f"rank {named}" if len(end.first) == 1 else f"ranks {named}{more}"
    where = f" on {', '.join(nodes[:MOST_NAMED])}" if nodes else ""
    how = (
        "went first, while the others lived"
        if end.by_scrapes
        else "went without a word, and the others met an error"
    )
    return f"{head}: {ranks}{where} {how}."


HEARD = {
    Heard.ANSWER: (
        "its collectors answer and know none of its ranks, as after a restart of the node; how it"
        " ended is not known"
    ),
    Heard.MIXED: (
        "those of its collectors that answer know none of its ranks, and the others tell nothing;"
        " how it ended, and whether it did, is not known"
    ),
    Heard.UNREACHED: (
        "Prometheus reaches none of its collectors that told of it, as where they ended with it, or"
        " its nodes or the network to them went; how it ended, and whether it did, is not known"
    ),
    Heard.UNTOLD: (
        "its collectors are scraped no more, or nobody says whether they are; how it ended, and"
        " whether it did, is not known"
    ),
}


def _facts(end: End) -> tuple[Fact, ...]:
    """What the ranks said last; nobody saw what ended them."""
    told = [
        f"{count} {'was' if count == 1 else 'were'} not told of" if not state
        else f"{count} said {str(state).replace('_', ' ')}"
        for state, count in sorted((end.states or {}).items())
    ]  # fmt: skip
    found = [Fact(True, f"last word of the ranks: {', '.join(told)}", m.RANK_LAST_STATE.name)]
    if end.first and not end.by_scrapes:
        found.append(Fact(False, "no scrape saw one rank gone while the others lived", ""))
    return tuple(found) if told else ()


def with_ends(
    sightings: Iterable[Detection],
    lives: Mapping[str, Life],
    over: Mapping[str, str],
    held: Mapping[str, float],
    course: Course,
    judged: Mapping[str, float],
    patience: float,
) -> Iterator[Detection]:
    """Without what is seen of runs that ended; of each that did so badly, its end, once.

    Who stopped it is told by its diagnosis, where that names one; else by how its ranks went.

    Args:
        sightings: What is seen.
        lives: Runs as they were seen last.
        over, held: As `over` has them.
        course: What is open.
        judged: Run -> unix seconds of the moment that its last diagnosis is about.
        patience: Seconds for which a diagnosis of the end is waited for where nobody else names
            anybody.
    """
    stops: dict[str, list[Detection]] = {}
    for one in sightings:
        if one.who.run not in over or one.kind is Kind.EVENT:
            yield one
        elif one.kind is Kind.STOP and one.who.run in held:
            stops.setdefault(one.who.run, []).append(one)
    told = {
        one.who.run for one in course.open.values()
        if one.kind is Kind.STOP and not _of_the_loss(lives.get(one.who.run), one.opened)
    }  # fmt: skip
    for run in held:
        life = lives[run]
        if run in told or life.end is None:
            continue
        named = stops.get(run, [])
        if len(named) == 1 and named[0].scope != "run":
            yield replace(named[0], sure=True, tier=Tier.PAGE)
            continue
        awaited = judged.get(run, life.seen) <= life.end.when and life.end.how is How.DIED
        if awaited and not life.end.first and held[run] < patience and not life.heir:
            continue
        yield detection(run, life, life.end, tuple(f for one in named for f in one.facts))


def _of_the_loss(life: Life | None, opened: float) -> bool:
    """Whether what was opened then said that a run vanished of which more is known now."""
    lost = None if life is None else life.lost
    return lost is not None and lost.since <= opened < lost.until


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


def over(
    lives: Mapping[str, Life],
    living: Collection[str],
    now: float,
    replaced: Collection[str] = (),
) -> tuple[dict[str, str], dict[str, float]]:
    """Which runs' findings are over, in words; and those whose stop is still told.

    Of these with the seconds since they were seen alive last.

    Args:
        lives: Runs as they were seen last.
        living: Runs of which a rank is alive now.
        now: Unix seconds.
        replaced: Runs whose heir is seen for the first time, and whose stop nobody was told of: it
            is told now, or nobody ever would.
    """
    words: dict[str, str] = {}
    held: dict[str, float] = {}
    for run, life in lives.items():
        end = life.end
        if end is None or run in living:
            continue
        if end.how is How.CLEAN:
            words[run] = f"the run ended as it should {end.clock}{_as_far(end)}"
            continue
        if end.how is How.VANISHED and not end.states:
            head, never = f"nobody tells of the run since {clock(end.when)}", "it did not come back"
        else:
            how = "was ended from outside" if end.how is How.STOPPED else "ended"
            head, never = f"the run {how} {end.clock}", "it was not started again"
        lately = now - max(end.when, end.noticed) < HOLD_SECONDS
        if life.heir and not (lately and run in replaced):
            words[run] = f"{head}, and run {life.heir} took its place"
        elif not lately:
            words[run] = f"{head}, and {never}"
        else:
            words[run] = head
            held[run] = now - life.seen
    return words, held


def _as_far(end: End) -> str:
    untold = (end.states or {}).get("", 0)
    if not untold:
        return ""
    ranks = sum((end.states or {}).values())
    return f", as far as {ranks - untold} of its {ranks} ranks told: its collectors ended with it"


def remembered(lives: Mapping[str, Life], now: float) -> dict[str, Life]:
    """Without runs that nobody saw alive for a day."""
    return {run: one for run, one in lives.items() if now - one.seen < FORGET_SECONDS}
