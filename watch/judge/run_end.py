"""How a run ended: as it should, without a clean close, or so that nobody tells of it any more.

When its last rank is gone, what they said last decides: where all finished, it ended as it should.
Who went first is told by scrapes that saw one gone while the others lived, else by who said nothing
while others met an error; else nobody is named. A page that fell silent may be a lost node or a
lost collector: no synchronous run makes a step without a node.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from lockstep.analyzer.findings.finding import Detection, Kind, Tier, Who
from lockstep.analyzer.shapes.run import Fact
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.words import Cause, RankState
from lockstep.watch.judge.runs import End, Heard, How, Life
from lockstep.watch.look.members import clock

MISSED_SCRAPES = 2.0
"""A page that did not answer for so many scrapes is silent."""
READ_SECONDS = 1.0
"""How old a page may be when it is scraped (lockstep.collector.config, fast_period)."""
SILENT = frozenset({RankState.STARTING, RankState.RUNNING})
"""What a rank says last that ended without a word."""
UNTOLD_TIMES = 3.0
"""Where nobody says that pages are scraped, as behind a federation that takes no `up`, a run that
is told of no more is waited for so many times as long."""


class Seen(NamedTuple):
    """Unix seconds of the last scrape that saw a rank alive, and of the first that saw it gone.

    A rank that was never seen alive has `-inf` there, one that was never seen gone `inf`.
    """

    alive: float
    gone: float


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
    when, gone = _when(life, seen, scrape, now)
    end = partial(End, when, gone=gone)
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


def _when(life: Life, seen: Mapping[int, Seen], scrape: float, now: float) -> tuple[float, float]:
    """`End.when` and `End.gone`: who looked without a pause saw when it was."""
    alive = max((one.alive for one in seen.values()), default=-math.inf)
    if math.isfinite(alive):
        gone = min((one.gone for one in seen.values() if one.gone > alive), default=math.inf)
    else:
        gone = min((one.gone for one in seen.values()), default=now)
        alive = min(life.seen, gone)
    exact = alive < gone <= alive + MISSED_SCRAPES * scrape
    return alive, math.inf if exact else gone


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


# The end of a run is reported once, and closes what was open about it.

HOLD_SECONDS = m.RANK_GONE_SECONDS
"""So long the finding of an end stays open: as long as collectors tell of the ranks that are gone.
It ends sooner where the run, or another on its nodes, was started."""
SURE, LIKELY = 0.95, 0.8
"""In the place: seen by scrapes; by what the ranks said last. Choices of ours."""
MOST_NAMED = 8
"""Ranks in a sentence."""


def detection(run: str, life: Life, end: End, facts: tuple[Fact, ...] = ()) -> Detection:
    """What is to be told of a run that ended without a clean close, and that nobody ended."""
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
    # Who deletes the pods takes them off service discovery: that is on purpose. Ranks that are
    # killed together without a word are not known to be: memory may have run out.
    taken_away = end.how is How.VANISHED and not end.states and end.heard is Heard.UNTOLD
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
        quiet=taken_away,
    )


def _sentence(run: str, life: Life, end: End) -> str:
    if end.how is How.VANISHED and end.states:
        untold = end.states.get("", 0)
        return (
            f"Run {run} ended {end.clock}: the ranks whose end is known finished; {untold} of its"
            f" {len(life.ranks)} ranks reported no end; how the run ended is unknown."
        )
    if end.how is How.VANISHED:
        return f"Run {run} has sent no data since {clock(end.when)}: {HEARD[end.heard]}."
    count = len(life.ranks)
    head = f"Run {run} ended without a clean close {end.clock}"
    if not end.first:
        gone = "its only rank went" if count == 1 else f"all {count} ranks went together"
        why = (
            "there was an error, and which rank had it first is unknown"
            if any(state not in (*SILENT, "") for state in end.states or ())
            else f"{gone} without a report, as after SIGKILL; whether on purpose is unknown"
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
        else "went without a report, and the others had an error"
    )
    return f"{head}: {ranks}{where} {how}."


HEARD = {
    Heard.ANSWER: (
        "its collectors answer and know none of its ranks, as after a restart of the node; how it"
        " ended is unknown"
    ),
    Heard.UNREACHED: (
        "some of its collectors do not answer, and none that does knows its ranks; whether and how"
        " it ended is unknown"
    ),
    Heard.UNTOLD: (
        "its collectors are no longer scraped, or nothing says whether they are; whether and how"
        " it ended is unknown"
    ),
}


def _facts(end: End) -> tuple[Fact, ...]:
    """What the ranks said last; nobody saw what ended them."""
    told = [
        f"{count} did not report" if not state
        else f"{count} reported {str(state).replace('_', ' ')}"
        for state, count in sorted((end.states or {}).items())
    ]  # fmt: skip
    found = [Fact(True, f"last report of the ranks: {', '.join(told)}", m.RANK_LAST_STATE.name)]
    if end.first and not end.by_scrapes:
        found.append(Fact(False, "no scrape saw one rank gone while the others lived", ""))
    return tuple(found) if told else ()


def with_ends(
    sightings: Iterable[Detection],
    lives: Mapping[str, Life],
    over: Mapping[str, str],
    held: Mapping[str, float],
    judged: Mapping[str, float],
    patience: float,
) -> Iterator[Detection]:
    """Without what is seen of runs that ended; of each that did so badly, its end, once.

    Who stopped it is told by its diagnosis, where that names one; else by how its ranks went.

    Args:
        sightings: What is seen.
        lives: Runs as they were seen last.
        over, held: As `over` has them.
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
    for run in held:
        life = lives[run]
        if life.end is None or life.end.told:
            continue
        named = stops.get(run, [])
        if len(named) == 1 and named[0].scope != "run":
            yield replace(named[0], sure=True, tier=Tier.PAGE)
            continue
        awaited = judged.get(run, life.seen) <= life.end.when and life.end.how is How.DIED
        if awaited and not life.end.first and held[run] < patience:
            continue
        yield detection(run, life, life.end, tuple(f for one in named for f in one.facts))


def over(
    lives: Mapping[str, Life], living: Collection[str], now: float
) -> tuple[dict[str, str], dict[str, float]]:
    """Which runs' findings are over, in words; and those whose stop is still told.

    A run that somebody ended on purpose has no stop.

    Of these with the seconds since they were seen alive last. An end that another run's beginning
    follows is told first: else it would be told to nobody.

    Args:
        lives: Runs as they were seen last.
        living: Runs of which a rank is alive now.
        now: Unix seconds.
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
        if end.how is How.STOPPED:
            words[run] = f"the run was ended from outside {end.clock}, as when its pods are deleted"
            continue
        if end.how is How.VANISHED and not end.states:
            head, never = f"no data of the run since {clock(end.when)}", "it did not come back"
        else:
            head, never = f"the run ended {end.clock}", "it was not started again"
        lately = now - max(end.when, end.noticed) < HOLD_SECONDS
        if life.heir and (end.told or not lately):
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
    return f", as {ranks - untold} of its {ranks} ranks reported: its collectors ended with it"
