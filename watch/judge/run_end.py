"""How a run ended: as it should, without a clean close, or so that nobody tells of it any more.

When its last rank is gone, what they said last decides: where all finished, it ended as it should.
Who went first is told by scrapes that saw one gone while the others lived, else by who said nothing
while others met an error; else nobody is named. A page that fell silent may be a lost node or a
lost collector: no synchronous run makes a step without a node.
"""

import math
from collections.abc import Collection, Mapping
from functools import partial
from typing import NamedTuple

from lockstep.collector.contract.words import RankState
from lockstep.watch.judge.run_life import End, How, Life

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
