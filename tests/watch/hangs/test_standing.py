"""How long a run may be silent, what explains it, and what is told of one that stands."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.findings.closable import Closable
from lockstep.analyzer.findings.finding import Change, Kind, Tier
from lockstep.analyzer.findings.finding_lifecycle import Course, Pace, advance
from lockstep.analyzer.hangs.document import document
from lockstep.analyzer.hangs.verdict import LIMIT_SECONDS, Status
from lockstep.analyzer.shapes.run import Fact
from lockstep.watch.findings import with_dumps
from lockstep.watch.hangs.standing import (
    Culprit,
    Standing,
    detections,
    excused,
    facts,
    limit,
    of_document,
    patience,
)
from lockstep.watch.judge.memory import Memory, from_json, to_json
from tests.hang_programs import hang, judged


@given(st.floats(0, 600), st.one_of(st.none(), st.floats(0, 600)))
def test_a_silence_as_long_as_the_longest_is_never_a_hang(longest, step):
    assert limit(longest, step) >= max(LIMIT_SECONDS, longest, step or 0.0)


@given(st.floats(0, 600), st.floats(0, 600))
def test_who_was_silent_for_longer_may_be_silent_for_longer(one, other):
    assert limit(min(one, other)) <= limit(max(one, other))


@pytest.mark.parametrize(("longest", "most"), [(0.0, 30.0), (20.0, 60.0), (300.0, 540.0)])
def test_the_limit_is_thrice_the_longest_and_ends_before_torch_does(longest, most):
    assert most == limit(longest)


def verdict_of(fault: str):
    case = hang(3, fault)
    return case, judged(case)


def test_an_evaluation_of_who_is_waited_for_explains_the_silence():
    case, verdict = verdict_of("data-loader")
    case.facts.clear()
    verdict = judged(case)

    assert excused(verdict, {case.rank: "eval"})
    assert excused(None, {0: "backward", 1: "checkpoint"})
    assert not excused(verdict, dict.fromkeys(range(case.layout.world), "backward"))
    assert patience(30.0) == 540.0


def test_a_process_that_is_stopped_is_in_no_evaluation():
    case, _ = verdict_of("host-stopped")
    case.facts.append((case.rank, "process-state", "T"))

    assert not excused(judged(case), dict.fromkeys(range(case.layout.world), "eval"))


def test_the_verdict_of_dumps_is_the_hang_of_a_verdict():
    case, verdict = verdict_of("host-stopped")

    culprits, told = of_document(document(verdict))

    assert [case.rank] == [one.rank for one in culprits]
    assert {"group", "sequence", "op", "missing_ranks"} == told.keys()
    assert [case.rank] == told["missing_ranks"]


STANDING = Standing(
    "gpt-1", 900.0, 30.0, Status.HANG, "It hangs.", (Culprit(2, "host-stopped", 0.9, ()),),
    {"group": "world", "sequence": 7, "op": "all_reduce", "missing_ranks": [2]},
    ("of rank 2 (node-2): frozen",), 3, 4, final=True,
)  # fmt: skip


def test_the_rank_that_dumps_name_is_a_page_and_sure(ranks):
    [found] = detections(STANDING, ranks(4, 1), 1000.0)

    assert ("gpt-1", 2, Kind.STOP, Tier.PAGE, True, "freeze") == (
        found.who.run, found.who.rank, found.kind, found.tier, found.sure, found.cause,
    )  # fmt: skip
    assert (STANDING.sentence, STANDING.hang) == (found.sentence, found.hang)
    assert Fact(False, "no dump: of rank 2 (node-2): frozen", "") in found.facts


@pytest.mark.parametrize(
    ("status", "final", "told"),
    [(Status.UNKNOWN, False, 0), (Status.UNKNOWN, True, 1), (None, False, 0), (None, True, 1),
     (Status.WAITING, True, 0), (Status.HEALTHY, True, 0)],
)  # fmt: skip
def test_nobody_is_named_where_it_is_unknown_and_only_the_second_time_the_run(
    ranks, status, final, told
):
    one = Standing("gpt-1", 900.0, 30.0, status, "Unknown.", final=final)

    found = list(detections(one, ranks(4, 1), 1000.0))

    assert told == len(found)
    assert all(each.who.rank is None and each.who.node is None for each in found)


def test_a_finding_that_is_open_learns_what_dumps_tell_once_and_says_how_it_ended(ranks):
    [sighting] = detections(STANDING, ranks(4, 1), 1000.0)
    pace = Pace(100.0, 100.0)
    knows = Closable(1000.0, frozenset({"gpt-1"}), {"gpt-1": 1000.0})
    course, change = advance(Course({}, {}), [sighting], knows, pace)
    more = Standing("gpt-1", 900.0, 30.0, Status.HANG, "More.", STANDING.culprits,
                    {**STANDING.hang, "sequence": 8}, final=True)  # fmt: skip

    course, first = with_dumps(course, change, {"gpt-1": more}, frozenset())
    _, again = with_dumps(course, Change(still=first.open), {"gpt-1": more}, frozenset())
    [over] = with_dumps(course, Change(closed=first.open), {}, frozenset({"gpt-1"}))[1].closed

    assert ["It hangs. More."] == [one.words for one in first.open]
    assert first.open == again.open == tuple(course.open.values())
    told = replace(over, closed=1000.0).summary
    assert ("the run went on", True) == (over.ending, "went on" in told)


def test_a_run_that_hangs_again_and_again_is_told_by_its_last_hang_and_its_first_words(ranks):
    [sighting] = detections(STANDING, ranks(4, 1), 1000.0)
    course, hang = Course({}, {}), STANDING
    for index in range(50):  # it goes on, and hangs again within five minutes
        now = 1000.0 + 120.0 * index
        hang = replace(STANDING, sentence=f"It stands at operation {index}.",
                       limit=30.0 + index, hang={**STANDING.hang, "sequence": index})  # fmt: skip
        knows = Closable(now, frozenset({"gpt-1"}), {"gpt-1": now})
        course, change = advance(course, [sighting], knows, Pace(100.0, 300.0))
        course, _ = with_dumps(course, change, {"gpt-1": hang}, frozenset())

    [finding] = from_json(to_json(Memory(course))).course.open.values()
    assert "It hangs. It stands at operation 49." == finding.words
    assert hang.hang == finding.hang
    assert {*facts(hang), *facts(STANDING)} == {*finding.evidence}
