"""What is said of a run that is over: its end, once, and that what was open about it is over."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from lockstep.analyzer.findings.finding import Detection, Kind, Tier, Who
from lockstep.analyzer.shapes.run import Fact
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.words import Cause
from lockstep.watch.judge.run_end import SILENT
from lockstep.watch.judge.run_life import End, Heard, How, Life
from lockstep.watch.look.members import clock

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
            f"Run {run} ended {end.clock}: the ranks that are told of finished, and of"
            f" {untold} of its {len(life.ranks)} nobody told the end; how it ended is not known."
        )
    if end.how is How.VANISHED:
        return f"Run {run} is told of no more since {clock(end.when)}: {HEARD[end.heard]}."
    count = len(life.ranks)
    head = f"Run {run} ended without a clean close {end.clock}"
    if not end.first:
        gone = "its only rank went" if count == 1 else f"all {count} ranks went together"
        why = (
            "an error was met, and which rank met it first cannot be told"
            if any(state not in (*SILENT, "") for state in end.states or ())
            else f"{gone} without a word, as by SIGKILL; whether on purpose is not known"
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
    Heard.UNREACHED: (
        "Prometheus does not reach its collectors, or some of them, and the others know none of"
        " its ranks; how it ended, and whether it did, is not known"
    ),
    Heard.UNTOLD: (
        "its collectors are no longer scraped, or nothing says whether they are; how it ended, and"
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
            words[run] = f"the run was ended from outside {end.clock}, as by who deletes its pods"
            continue
        if end.how is How.VANISHED and not end.states:
            head, never = f"nobody tells of the run since {clock(end.when)}", "it did not come back"
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
    return f", as far as {ranks - untold} of its {ranks} ranks told: its collectors ended with it"
