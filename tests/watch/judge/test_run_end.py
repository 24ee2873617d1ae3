"""How runs end, who went first, and what that does to findings: told once, never left open."""

import math
from dataclasses import replace

import pytest

from lockstep.analyzer.findings.closable import Closable
from lockstep.analyzer.findings.finding import Detection, Kind, Tier, Who
from lockstep.analyzer.findings.finding_lifecycle import Course, Pace, advance
from lockstep.watch.judge.memory import Memory, from_json, to_json
from lockstep.watch.judge.run_end import HOLD_SECONDS, Seen, detection, ended, over, with_ends
from lockstep.watch.judge.runs import (
    End,
    Heard,
    How,
    Life,
    Lost,
    Place,
    inherited,
    lived,
    with_told,
)

PAGES = frozenset({("lockstep", "a:9410")})
RANKS = {rank: Place(f"node-{rank // 2}", rank % 2) for rank in range(4)}
LIFE = Life(RANKS, PAGES, 0, 1000.0)
TOGETHER = {rank: Seen(1000.0, 1001.0) for rank in range(4)}
RUNNING, FAILED, LOST, FINISHED = "running", "failed", "peer_lost", "finished"
STOPPED = "stopped"


def end_of(*states, seen=TOGETHER, life=LIFE):
    return judged(dict(enumerate(states)), seen, life=life)


def judged(states, seen, now=1020.0, stepped=999.0, life=LIFE, heard=True):
    return ended(life, states, seen, 1.0, now, stepped, heard=heard)


def test_a_run_whose_ranks_all_finished_ended_as_it_should():
    assert How.CLEAN == end_of(*[FINISHED] * 4).how


def test_what_nobody_told_is_no_end():
    assert judged({}, TOGETHER) is None


@pytest.mark.parametrize(
    ("states", "seen", "first", "by_scrapes"),
    [
        # One was gone while three scrapes saw the others.
        ((FAILED, RUNNING, FAILED, LOST),
         {**{r: Seen(1003.0, 1004.0) for r in (0, 2, 3)}, 1: Seen(1000.0, 1001.0)}, (1,), True),
        # The spans overlap: only what they said tells it.
        ((FAILED, RUNNING, FAILED, LOST), TOGETHER, (1,), False),
        ((RUNNING,) * 4, TOGETHER, (), False),
        ((FAILED,) * 4, TOGETHER, (), False),
    ],
)  # fmt: skip
def test_who_went_first(states, seen, first, by_scrapes):
    end = end_of(*states, seen=seen)

    assert (How.DIED, first, by_scrapes) == (end.how, end.first, end.by_scrapes)


LATER = {**{r: Seen(1003.0, 1004.0) for r in (2, 3)}, **{r: Seen(1000.0, 1001.0) for r in (0, 1)}}


@pytest.mark.parametrize(
    ("states", "seen", "how"),
    [
        ((STOPPED,) * 4, TOGETHER, How.STOPPED),
        # The pods of one node are ended first, and the other's ranks lose their peers.
        ((STOPPED, STOPPED, LOST, LOST), LATER, How.STOPPED),
        ((STOPPED, STOPPED, LOST, LOST), TOGETHER, How.STOPPED),
        ((STOPPED, STOPPED, FAILED, FAILED), LATER, How.STOPPED),
        ((STOPPED, STOPPED, RUNNING, RUNNING), LATER, How.STOPPED),
        # A fault of the run, whose pods were deleted then.
        ((STOPPED, STOPPED, FAILED, STOPPED), TOGETHER, How.DIED),
        ((RUNNING, RUNNING, STOPPED, LOST), LATER, How.DIED),
        ((STOPPED, STOPPED, RUNNING, STOPPED), TOGETHER, How.DIED),
    ],
)
def test_a_run_that_somebody_ends_accuses_nobody_and_pages_nobody(states, seen, how):
    end = end_of(*states, seen=seen)
    words, held = over({"gpt": replace(LIFE, end=end)}, {"other"}, end.when + 20.0)

    assert how == end.how
    assert (how is How.STOPPED) is ("was ended from outside" in words["gpt"])
    assert (set() if how is How.STOPPED else {"gpt"}) == held.keys()
    assert how is How.STOPPED or detection("gpt", LIFE, end).tier is Tier.PAGE


def test_only_what_service_discovery_dropped_is_recorded_and_told_to_nobody():
    lost = [End(1000.0, How.VANISHED, heard=one) for one in Heard]

    assert [Heard.UNTOLD] == [end.heard for end in lost if detection("gpt", LIFE, end).quiet]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_ranks_that_are_killed_together_on_nodes_that_answer_are_told_to_somebody(count):
    life = replace(LIFE, ranks={rank: RANKS[rank] for rank in range(count)})
    end = end_of(*(RUNNING,) * count, seen={rank: TOGETHER[rank] for rank in range(count)},
                 life=life)  # fmt: skip
    told = detection("gpt", life, end)

    assert (How.DIED, False) == (end.how, told.quiet)
    assert "without a report, as after SIGKILL; whether on purpose is unknown" in told.sentence


def test_a_stop_that_was_over_does_not_tell_of_the_end_that_came_after_it():
    died = Life(RANKS, PAGES, 0, 1001.0, end=End(1001.0, How.DIED, first=(2,)))
    told = [
        with_told({"gpt": died}, [opened(900.0)], {"gpt": when})["gpt"].end
        for when in (890.0, 920.0)
    ]

    assert [True, False] == [end.told for end in told if end is not None]


def test_the_ranks_of_a_node_that_fell_silent_before_the_others_went_were_first():
    seen = {0: Seen(1000.0, float("inf")), 1: Seen(1000.0, float("inf")),
            2: Seen(1004.0, 1005.0), 3: Seen(1004.0, 1005.0)}  # fmt: skip
    end = judged({2: FAILED, 3: FAILED}, seen)
    assert end is not None
    told = detection("gpt", LIFE, end)

    assert ((0, 1), True, "node") == (end.first, end.by_scrapes, told.scope)
    assert Who("gpt", "node-0", None, None, None) == told.who
    assert "ranks 0, 1 on node-0 went first, while the others lived" in told.sentence


@pytest.mark.parametrize(("last", "first"), [(1001.5, (0, 1, 2)), (1010.0, (2,))])
def test_a_rank_was_not_gone_before_a_node_that_fell_silent_within_a_scrape(last, first):
    silent = {rank: Seen(last, float("inf")) for rank in (0, 1)}
    seen = {**silent, 2: Seen(1000.0, 1001.0), 3: Seen(1012.0, 1013.0)}
    end = judged({2: FAILED, 3: FAILED}, seen)

    assert end is not None
    assert (first, True) == (end.first, end.by_scrapes)


SILENT = {rank: Seen(1000.0, float("inf")) for rank in (2, 3)}


@pytest.mark.parametrize("told", [FINISHED, LOST])
def test_a_page_that_missed_one_scrape_is_waited_for_but_no_longer_than_two(told):
    states, seen = {0: told, 1: told}, {**TOGETHER, **SILENT}

    assert judged(states, seen, now=1001.9) is None
    assert judged(states, seen, now=1002.0) is not None


def test_a_run_of_which_some_finished_and_others_are_not_told_of_did_not_end_as_it_should():
    end = judged({0: FINISHED, 1: FINISHED}, {**TOGETHER, **SILENT})
    assert end is not None
    told = detection("gpt", LIFE, end)

    assert (How.VANISHED, Tier.RECORD, "unknown") == (end.how, told.tier, told.cause)
    assert "2 of its 4 ranks reported no end; how the run ended is unknown" in told.sentence


@pytest.mark.parametrize(("last", "how"), [(1000.0, How.CLEAN), (990.0, How.VANISHED)])
def test_where_all_pages_fell_silent_at_once_those_that_told_speak_for_the_others(last, how):
    silent = {rank: Seen(last, float("inf")) for rank in (2, 3)}
    end = judged({0: FINISHED, 1: FINISHED}, {**TOGETHER, **silent}, heard=False)
    assert end is not None
    words, _ = over({"gpt": Life(RANKS, PAGES, 0, 1001.0, end=end)}, (), 1020.0)

    assert how == end.how
    as_far = "as 2 of its 4 ranks reported: its collectors ended with it" in words["gpt"]
    assert (how is How.CLEAN) is as_far


@pytest.mark.parametrize(
    ("stepped", "first"), [(941.0, (2, 3)), (999.0, ()), (float("inf"), ())]
)  # fmt: skip
def test_a_run_that_went_on_without_a_page_lost_a_collector_and_no_node(stepped, first):
    silent = {rank: Seen(940.0, float("inf")) for rank in (2, 3)}
    end = judged({0: FAILED, 1: LOST}, {**TOGETHER, **silent}, stepped=stepped)

    assert end is not None
    assert (How.DIED, first) == (end.how, end.first)


@pytest.mark.parametrize(
    ("states", "tier", "who", "words"),
    [
        ((FAILED, RUNNING, FAILED, LOST), Tier.PAGE, 1, "rank 1 on node-0 went without a report"),
        ((FAILED,) * 4, Tier.PAGE, None, "which rank had it first is unknown"),
        ((RUNNING,) * 4, Tier.RECORD, None, "whether on purpose is unknown"),
    ],
)
def test_an_end_wakes_somebody_only_where_something_went_wrong(states, tier, who, words):
    end = end_of(*states)
    assert end is not None
    told = detection("gpt", LIFE, end)

    assert (tier, who, Kind.STOP) == (told.tier, told.who.rank, told.kind)
    assert words in told.sentence
    assert (told.place_confidence is None) is (who is None)


def test_a_restart_begins_a_new_life_and_ranks_that_fell_silent_stay_known():
    silent = lived(LIFE, {rank: RANKS[rank] for rank in (2, 3)}, PAGES, 0, 1010.0)
    dead = Life(RANKS, PAGES, 0, 1010.0, end=End(1009.0, How.DIED))

    assert (set(RANKS), 1010.0, None) == (set(silent.ranks), silent.seen, silent.end)
    assert (1020.0, None) == (
        (again := lived(dead, RANKS, PAGES, 1, 1020.0)).again, again.end,
    )  # fmt: skip


def stop(rank: int | None, scope: str = "rank", kind: Kind = Kind.STOP) -> Detection:
    node = None if rank is None else RANKS[rank].node
    return Detection(
        Who("gpt", node, rank, None, None), kind, scope, "crash", Tier.PAGE, 0.9, "It died.", 999.0,
        sure=True,
    )  # fmt: skip


def opened(when):
    """A stop of the run that opened then."""
    knows = Closable(when, frozenset(["gpt"]), {})
    [one] = advance(Course({}, {}), [stop(1)], knows, Pace(60.0, 60.0))[1].opened
    return one


def told(sightings, end, now=1002.0, judged=1002.0):
    life = Life(RANKS, PAGES, 0, 1001.0, end=end)
    words, held = over({"gpt": life}, (), now)
    return list(with_ends(sightings, {"gpt": life}, words, held, {"gpt": judged}, 3.0))


def test_of_a_run_that_ended_only_its_end_is_seen_by_its_diagnosis_if_that_names_one():
    died = End(1001.0, How.DIED, (1,))
    slow, error = stop(2, kind=Kind.SLOW), stop(3, kind=Kind.EVENT)

    assert [error, stop(1)] == told([slow, error, stop(1)], died)
    # It names two: then how the ranks went tells one.
    assert [1] == [one.who.rank for one in told([stop(0), stop(1)], died)]
    assert [] == told([slow, stop(1)], End(1001.0, How.CLEAN))


def test_a_diagnosis_is_waited_for_where_nobody_else_names_anybody_but_not_for_long():
    died = End(1001.0, How.DIED)

    assert [] == told([], died, judged=990.0)
    assert [None] == [one.who.rank for one in told([], died, now=1005.0, judged=990.0)]


def test_an_end_is_told_until_it_was_for_long_enough_or_somebody_runs_there():
    died = Life(RANKS, PAGES, 0, 1001.0, end=End(1001.0, How.DIED, told=True))
    new = Life({0: RANKS[3]}, PAGES, 0, 1010.0, first=1010.0)

    assert {"gpt"} == set(over({"gpt": died}, (), 1002.0)[1])
    lives = inherited({"gpt": died, "new": new}, {"new"})
    words, held = over(lives, {"new"}, 1010.0)
    assert ("run new took its place" in words["gpt"], {}) == (True, held)
    words, held = over({"gpt": died}, (), 1001.0 + HOLD_SECONDS)
    assert ("was not started again" in words["gpt"], {}) == (True, held)


def test_who_is_replaced_before_anybody_was_told_of_its_end_is_told_of_once():
    died = Life(RANKS, PAGES, 0, 1001.0, end=End(1001.0, How.DIED, noticed=1010.0))
    new = Life({0: RANKS[3]}, PAGES, 0, 1010.0, first=1010.0)
    lives = inherited({"gpt": died, "new": new}, {"new"})

    words, held = over(lives, {"new"}, 1010.0)
    assert {"gpt": 9.0} == held
    assert ["gpt"] == [one.who.run for one in with_ends([], lives, words, held, {}, 9.0)]
    assert {} == over(lives, {"new"}, 1010.0 + HOLD_SECONDS)[1]
    lives = with_told(lives, [opened(1010.0)])
    words, held = over(lives, {"new"}, 1025.0)
    assert ("run new took its place" in words["gpt"], {}) == (True, held)
    assert lives == from_json(to_json(Memory(lives=lives))).lives


@pytest.mark.parametrize(("when", "tells"), [(899.0, False), (901.0, True), (955.0, False)])
def test_what_was_over_before_a_run_ended_does_not_tell_of_its_end(when, tells):
    lost, end = Lost(950.0, 960.0), End(1001.0, How.DIED)
    life = Life(RANKS, PAGES, 1, 1001.0, again=900.0, end=end, lost=lost)
    after = with_told({"gpt": life}, [opened(when)])["gpt"].end

    assert after == replace(end, told=tells)


@pytest.mark.parametrize("living", [(), ("new",)])
def test_what_is_over_stays_over_when_the_heir_ends_or_its_node_is_renamed(living):
    died = Life(RANKS, PAGES, 0, 1001.0, end=End(1001.0, How.DIED, told=True))
    new = Life({0: RANKS[3]}, PAGES, 0, 1010.0, first=1010.0)
    lives = inherited({"gpt": died, "new": new}, {"new"})
    lives["new"] = Life({0: Place("host7-1", 1)}, PAGES, 0, 1020.0)
    words, held = over(inherited(lives, living), living, 1020.0)

    assert ("run new took its place" in words["gpt"], {}) == (True, held)
    again = lived(lives["gpt"], RANKS, PAGES, 1, 1030.0)
    assert "" == again.heir


@pytest.mark.parametrize(
    ("first", "again", "heir"),
    [(900.0, 0.0, False), (0.0, 0.0, False), (1002.0, 0.0, True), (900.0, 1002.0, True)],
)
def test_who_lived_at_the_place_of_a_run_all_along_is_no_heir(first, again, heir):
    place = {0: Place("node-0", -1)}
    died = Life(place, PAGES, 0, 1000.0, end=End(1000.0, How.DIED, (0,), told=True), first=900.0)
    beside = Life(place, PAGES, 0, 1002.0, again, first=first)
    lives = inherited({"a": died, "b": beside, "c": Life(place, PAGES, 0, 1002.0)}, {"b", "c"})
    _, held = over(lives, {"b", "c"}, 1002.0)

    assert ("b" if heir else "", heir) == (lives["a"].heir, not held)


def test_a_run_is_first_seen_once_and_what_two_first_looks_found_is_no_heir():
    new = lived(None, RANKS, PAGES, 0, 1010.0)
    died = Life(RANKS, PAGES, 0, 1010.0, end=End(1001.0, How.DIED), first=1010.0)

    assert 1010.0 == lived(new, RANKS, PAGES, 1, 1020.0).first
    assert "" == inherited({"gpt": died, "new": new}, {"new"})["gpt"].heir


def test_of_a_run_that_nobody_saw_alive_is_known_before_when_it_ended():
    found = Life(RANKS, PAGES, 0, 1020.0, first=1020.0)  # dead, and just now
    gone = {rank: Seen(-math.inf, 700.0) for rank in range(4)}
    end = judged(dict.fromkeys(range(4), FAILED), gone, life=found)
    seen_by_watch = judged(dict.fromkeys(range(4), FAILED), gone, life=replace(found, seen=600.0))

    assert (700.0, 700.0) == (end.when, end.gone)
    assert "ended without a clean close before 00:11:40 UTC" in detection("gpt", LIFE, end).sentence
    assert {"gpt": "the run ended before 00:11:40 UTC"} == over(
        {"gpt": replace(found, end=replace(end, noticed=1020.0))}, (), 1020.0
    )[0]
    assert (600.0, "between 00:10:00 UTC and 00:11:40 UTC") == (
        seen_by_watch.when, seen_by_watch.clock,
    )  # fmt: skip
    life = replace(found, end=end)
    assert end == from_json(to_json(Memory(lives={"gpt": life}))).lives["gpt"].end


def test_a_rank_that_was_gone_long_before_the_others_went_first():
    seen = {**TOGETHER, 2: Seen(-math.inf, 700.0)}
    end = end_of(FAILED, LOST, RUNNING, LOST, seen=seen)

    assert ((2,), True) == (end.first, end.by_scrapes)
