"""Findings open once, for good reason, and close when what they say is over."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.findings.closable import Closable
from lockstep.analyzer.findings.finding import Detection, Kind, Tier, Who
from lockstep.analyzer.findings.finding_lifecycle import Course, Pace, advance, slug

PACE = Pace(confirm=600.0, close=300.0)
RUN = frozenset({"gpt-1"})
NOBODY = frozenset[str]()
EMPTY = Course({}, {})


def of(runs, now, at=None, silent=()):
    """A cycle that knows of these runs, and diagnosed them now or at a moment."""
    return Closable(now, runs, dict.fromkeys(runs, now if at is None else at), frozenset(silent))


def cycles(course, *steps, pace=PACE):
    """(course, changes) after cycles, each (now, sightings, judged)."""
    changes = []
    for now, sightings, judged in steps:
        course, change = advance(course, sightings, of(judged, now), pace)
        changes.append(change)
    return course, changes


def test_what_is_sure_opens_at_once_and_only_once(sighting):
    _, changes = cycles(EMPTY, *((now, [sighting()], RUN) for now in (1000.0, 1015.0, 1030.0)))

    assert [1, 0, 0] == [len(one.opened) for one in changes]
    assert [0, 1, 1] == [len(one.still) for one in changes]
    assert (1000.0, 900.0, None) == (
        changes[0].opened[0].opened, changes[0].opened[0].onset, changes[0].opened[0].closed,
    )  # fmt: skip


def test_what_is_not_sure_opens_when_it_was_seen_for_as_long_as_a_diagnosis_looks_back(sighting):
    times = [1000.0 + 15 * index for index in range(42)]

    _, changes = cycles(EMPTY, *((now, [sighting(sure=False)], RUN) for now in times))

    opened = [now for now, change in zip(times, changes, strict=True) if change.opened]
    assert [1600.0] == opened
    assert 1000.0 == next(one for one in changes if one.opened).opened[0].first_seen


def test_a_finding_closes_when_it_was_not_seen_for_long_enough(sighting):
    gone = [(1000.0 + 15 * index, [], RUN) for index in range(1, 30)]

    course, changes = cycles(EMPTY, (1000.0, [sighting()], RUN), *gone)

    closed = [one.closed for one in changes if one.closed]
    assert [1300.0] == [one[0].closed for one in closed]
    assert {} == course.open


def test_missing_data_neither_opens_nor_closes(sighting):
    blind = [(1000.0 + 15 * index, [], NOBODY) for index in range(1, 100)]

    course, changes = cycles(EMPTY, (1000.0, [sighting()], RUN), *blind)

    assert [] == [one for change in changes[1:] for one in (*change.opened, *change.closed)]
    assert 1 == len(course.open)


def test_time_without_data_does_not_count_as_time_without_the_fault(sighting):
    blind = [(1000.0 + 15 * index, [], NOBODY) for index in range(1, 100)]
    after = (1000.0 + 15 * 100, [], RUN)

    course, _ = cycles(EMPTY, (1000.0, [sighting()], RUN), *blind, after)

    assert 1 == len(course.open)


def closings(*looks, seen):
    """What closed in cycles, each (now, moment of the last diagnosis, silent nodes)."""
    course, _ = advance(EMPTY, [seen], of(RUN, 1000.0), PACE)
    closed = []
    for now, at, silent in looks:
        course, change = advance(course, [], of(RUN, now, at, silent), PACE)
        closed += [one.closed for one in change.closed]
    return closed


def test_a_finding_of_a_node_that_is_silent_stays_though_others_of_the_run_answer(sighting):
    times = [1000.0 + 15 * index for index in range(1, 100)]

    assert [] == closings(*((now, now, {"node-2"}) for now in times), seen=sighting(2))
    assert [1300.0] == closings(*((now, now, {"node-1"}) for now in times), seen=sighting(2))


def test_a_finding_stays_while_no_diagnosis_is_made(sighting):
    times = [1000.0 + 15 * index for index in range(1, 100)]

    assert [] == closings(*((now, 1000.0, ()) for now in times), seen=sighting())


def test_one_diagnosis_that_does_not_see_it_closes_no_finding(sighting):
    times = [1000.0 + 15 * index for index in range(1, 100)]

    assert [] == closings(*((now, min(now, 1030.0), ()) for now in times), seen=sighting())
    assert [1450.0] == closings(
        *((now, 1030.0 if now < 1450.0 else 1450.0, ()) for now in times), seen=sighting()
    )


def test_hardware_is_looked_at_without_a_diagnosis(sighting):
    event = dataclasses.replace(sighting(), kind=Kind.EVENT)
    times = [1000.0 + 15 * index for index in range(1, 40)]

    assert [1300.0] == closings(*((now, 1000.0, ()) for now in times), seen=event)


def test_what_flickers_never_opens(sighting):
    steps = [
        (1000.0 + 400.0 * index, [sighting(sure=False)] if index % 2 else [], RUN)
        for index in range(40)
    ]

    _, changes = cycles(EMPTY, *steps)

    assert [] == [one for change in changes for one in change.opened]


def test_a_record_that_becomes_a_page_is_one_finding_that_goes_on(sighting):
    hot = dataclasses.replace(sighting(tier=Tier.RECORD), kind=Kind.HARDWARE, slowdown=None)
    page = dataclasses.replace(sighting(), onset=1005.0, sentence="Rank 2 is slow.")

    course, changes = cycles(EMPTY, (1000.0, [hot], RUN), (1015.0, [hot, page], RUN))

    [record], [now] = changes[0].opened, changes[1].still
    assert ((), ()) == (changes[1].opened, changes[1].closed)
    assert frozenset({record.folder}) == changes[1].paged
    assert (record.folder, record.opened) == (now.folder, now.opened)
    assert (Tier.PAGE, Kind.SLOW, 1005.0, 1015.0) == (now.tier, now.kind, now.onset, now.paged)
    assert [Tier.PAGE] == [tier for _, tier in course.open]


@pytest.mark.parametrize(
    "page",
    [
        {"kind": Kind.EVENT},  # an error of the driver is not what its temperature says
        {"who": Who("gpt-1", "node-3", 3, 0, None)},
        {"who": Who("gpt-1", "node-2", None, None, None)},
    ],
)
def test_another_thing_at_the_place_of_a_record_is_another_finding(sighting, page):
    hot = dataclasses.replace(sighting(tier=Tier.RECORD), kind=Kind.HARDWARE)
    other = dataclasses.replace(sighting(), **page)

    _, changes = cycles(EMPTY, (1000.0, [hot], RUN), (1015.0, [hot, other], RUN))

    assert [1, 1] == [len(one.opened) for one in changes]
    assert [Tier.RECORD] == [one.tier for one in changes[1].still]


RECOVERS = dataclasses.replace(PACE, recover=120.0)


def read(now, reading, **more):
    """A cycle in which the own time of rank 2 is this many times its peers'."""
    return dataclasses.replace(of(RUN, now), readings={("gpt-1", 2): reading}, **more)


def test_a_rank_that_is_as_fast_as_before_is_over_though_diagnoses_see_it_for_longer(sighting):
    course, closed, slow = EMPTY, [], sighting()
    for now in range(1000, 2500, 15):
        reading = 1.5 if now < 1300 else 1.02
        course, change = advance(
            course, [slow] if now < 1800 else [], read(now, reading), RECOVERS,
            [one for _, one in closed],
        )  # fmt: skip
        closed += [(now, one) for one in change.closed]
        assert now == 1000 or not change.opened

    [(when, one)] = closed
    assert 1300 + 120 - 15 <= when <= 1300 + 120 + 15
    assert abs((1300 - one.onset) - one.lasted) <= 60.0
    assert "It is over after 6 min" in one.summary


@pytest.mark.parametrize("reading", [1.5, 1.4, None])
def test_a_rank_that_is_as_slow_as_before_or_is_not_told_of_is_not_over(sighting, reading):
    course, _ = advance(EMPTY, [sighting()], read(1000.0, 1.5), RECOVERS)
    for now in range(1015, 2500, 15):
        judged = of(RUN, now) if reading is None else read(now, reading)
        course, change = advance(course, [sighting()], judged, RECOVERS)

        assert () == change.closed


def test_a_rank_with_more_work_than_its_peers_is_over_when_it_is_as_far_from_them_as_before(
    sighting,
):
    def closings(slow, usual):
        course, _ = advance(EMPTY, [sighting()], read(1000.0, slow), RECOVERS)
        for now in range(1015, 1400, 15):
            course, change = advance(course, [sighting()], read(now, usual), RECOVERS)
            if change.closed:
                return now
        return None

    assert (None, 1120) == (closings(1.2, 1.15), closings(1.8, 1.2))


def test_a_stop_is_over_when_the_run_makes_steps_again_and_says_for_how_long_it_stood(sighting):
    stop = dataclasses.replace(sighting(), kind=Kind.STOP, slowdown=None, onset=990.0)
    course, _ = advance(EMPTY, [stop], of(RUN, 1000.0), PACE)
    again = dataclasses.replace(of(RUN, 1090.0), went_on={"gpt-1": 1075.0})
    stands = advance(course, [stop], again, PACE)[1]
    _, change = advance(course, [], again, PACE)

    assert () == stands.closed  # others go on, and this rank does not
    assert [("the run went on", 85.0)] == [(one.ending, one.lasted) for one in change.closed]


def test_a_slow_rank_that_stops_its_run_is_told_of_as_that(sighting):
    stop = dataclasses.replace(sighting(), kind=Kind.STOP, cause="freeze", slowdown=None)
    _, changes = cycles(EMPTY, *((1000.0 + 15 * n, [one], RUN)
                                 for n, one in enumerate((sighting(), stop, stop))))  # fmt: skip

    assert [Kind.SLOW] == [one.kind for one in changes[1].closed]
    assert [Kind.STOP] == [one.kind for one in changes[2].opened]


def test_what_is_sure_and_may_be_over_in_a_moment_is_waited_for(sighting):
    flap = dataclasses.replace(sighting(), kind=Kind.EVENT, settle=45.0)
    short = cycles(EMPTY, (1000.0, [flap], RUN), (1015.0, [flap], RUN),
                   *((1030.0 + 15 * n, [], RUN) for n in range(40)))[1]  # fmt: skip
    long = cycles(EMPTY, *((1000.0 + 15 * n, [flap], RUN) for n in range(4)))[1]

    assert [] == [one for change in short for one in change.opened]
    assert [0, 0, 0, 1] == [len(one.opened) for one in long]


def test_a_node_that_is_named_says_what_its_ranks_would(sighting):
    rank = sighting(2)
    node = Detection(
        who=Who("gpt-1", "node-2", None, None, None), kind=Kind.SLOW, scope="node",
        cause="host-cpu", tier=Tier.PAGE, confidence=0.9, sentence="", onset=900.0, sure=True,
    )  # fmt: skip

    _, changes = cycles(EMPTY, (1000.0, [rank, node], RUN))

    assert ["node"] == [one.scope for one in changes[0].opened]


def test_a_clock_that_was_put_back_closes_nothing_and_opens_nothing_twice(sighting):
    course, changes = cycles(
        EMPTY,
        *[(1e6, [sighting()], RUN), (5000.0, [sighting()], RUN), (5015.0, [], RUN)],
        (5300.0, [sighting()], RUN),
    )

    assert [1, 0, 0, 0] == [len(one.opened) for one in changes]
    assert [] == [one for change in changes for one in change.closed]
    assert 1 == len(course.open)


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 2)),
            st.booleans(),
            st.sets(st.integers(0, 2)),
            st.integers(1, 400),
        ),
        max_size=60,
    )
)
def test_whatever_is_seen_each_finding_opens_once_before_it_closes_once(steps):
    course, now, open_now = EMPTY, 1000.0, set()
    for seen, judged, sure, pause in steps:
        now += pause
        sightings = [_of(rank, sure=rank in sure) for rank in sorted(seen)] if judged else []
        course, change = advance(course, sightings, of(RUN if judged else NOBODY, now), PACE)
        for finding in change.opened:
            assert finding.who.rank not in open_now
            assert judged
            open_now.add(finding.who.rank)
        for finding in change.closed:
            assert judged
            open_now.remove(finding.who.rank)
        assert {one.who.rank for one in change.open} == open_now


def _of(rank, *, sure):
    who = Who("gpt-1", f"node-{rank}", rank, 0, None)
    return Detection(who, Kind.SLOW, "rank", "slow-gpu", Tier.PAGE, 0.9, "", 900.0, sure)


@given(st.text())
def test_a_slug_is_a_plain_name_of_a_folder(name):
    found = slug(name)

    assert found
    assert len(found) <= 64
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert found[0] != "."


@given(st.text(), st.text())
def test_two_names_have_two_slugs(one, other):
    assert (slug(one) == slug(other)) == (one == other)


def test_a_cause_is_told_once_when_it_becomes_known(sighting):
    unknown, sure = sighting(cause="unknown"), sighting(cause="thermal")
    unsure = dataclasses.replace(sure, confidence=0.5)
    later = dataclasses.replace(sure, sentence="It is hot.", onset=950.0)
    other = sighting(cause="power")

    _, changes = cycles(
        EMPTY, *((1000.0 + 15 * n, [one], RUN)
                 for n, one in enumerate((unknown, unsure, later, other, unknown)))
    )  # fmt: skip

    told = [change.open[0] for change in changes]
    assert ["unknown", "unknown", "thermal", "thermal", "thermal"] == [one.cause for one in told]
    assert [None, None, 1030.0, 1030.0, 1030.0] == [one.learnt for one in told]
    assert 1 == len({one.folder for one in told})
    assert "It is hot." == told[-1].sentence


def test_what_is_said_is_renewed_and_since_when_is_not(sighting):
    first = sighting()
    worse = dataclasses.replace(first, slowdown=1.8, sentence="Slower still.", onset=910.0)
    late = dataclasses.replace(first, slowdown=1.9, sentence="Since later.", onset=990.0)

    _, changes = cycles(
        EMPTY, *((1000.0 + 15 * n, [one], RUN) for n, one in enumerate((first, worse, late)))
    )  # fmt: skip

    told = [change.open[0] for change in changes]
    assert [1.5, 1.8, 1.9] == [one.slowdown for one in told]
    assert ["Rank 2 is slow.", "Slower still.", "Slower still."] == [one.sentence for one in told]
    assert {900.0} == {one.onset for one in told}


def test_findings_of_a_run_that_ended_close_at_once_but_for_the_one_that_stopped_it(sighting):
    slow, stop = sighting(1), dataclasses.replace(sighting(2), kind=Kind.STOP)
    error = dataclasses.replace(sighting(3), kind=Kind.EVENT)
    course, _ = advance(EMPTY, [slow, stop, error], of(RUN, 1000.0), PACE)
    words = {"gpt-1": "the run ended at noon"}

    held = dataclasses.replace(of(RUN, 1015.0), over=words, held={"gpt-1": 1010.0})
    course, change = advance(course, [], held, PACE)

    assert [(1, "the run ended at noon")] == [(one.who.rank, one.ending) for one in change.closed]
    assert {2, 3} == {one.who.rank for one in change.still}
    told = {one.summary.partition(" It lasts")[0] for one in change.still}
    assert "Rank 2 is slow. The run ended at noon." in told

    _, change = advance(course, [], dataclasses.replace(of(RUN, 1030.0), over=words), PACE)
    assert [2] == [one.who.rank for one in change.closed]


def test_what_stopped_a_run_is_over_when_it_was_started_again(sighting):
    stop = dataclasses.replace(sighting(2), kind=Kind.STOP)
    course, _ = advance(EMPTY, [stop], of(RUN, 1000.0), PACE)

    again = dataclasses.replace(of(RUN, 1015.0), again={"gpt-1": 1010.0})
    _, change = advance(course, [], again, PACE)

    assert ["the run lives again"] == [one.ending for one in change.closed]


@pytest.mark.parametrize("kind", [Kind.SLOW, Kind.STOP, Kind.HARDWARE])
def test_what_is_open_goes_on_while_sight_of_its_run_is_lost_and_that_is_said_for_so_long(
    sighting, kind
):
    open_now = dataclasses.replace(sighting(1), kind=kind)
    course, _ = advance(EMPTY, [open_now], of(RUN, 1000.0), PACE)
    for lost in (1400.0, 1900.0):
        away = dataclasses.replace(
            of(RUN, lost), over={"gpt-1": f"nobody tells of it since {lost:.0f}"},
            held={"gpt-1": lost}, unclear=RUN,
        )  # fmt: skip
        course, gone = advance(course, [], away, PACE)
        back = dataclasses.replace(of(RUN, lost + 15.0), lost={"gpt-1": (lost, lost + 15.0)})
        course, again = advance(course, [], back, PACE)

        assert () == (*gone.closed, *again.closed)
        assert f"Rank 1 is slow. Nobody tells of it since {lost:.0f}." in gone.open[0].summary
        assert "Nobody tells" not in again.open[0].summary


def test_what_stopped_a_run_that_ended_and_was_started_again_says_both(sighting):
    stop = dataclasses.replace(sighting(2), kind=Kind.STOP)
    words = {"gpt-1": "the run ended at noon"}
    course, _ = advance(EMPTY, [stop], of(RUN, 1000.0), PACE)
    held = dataclasses.replace(of(RUN, 1015.0), over=words, held={"gpt-1": 1010.0})
    course, _ = advance(course, [], held, PACE)

    _, change = advance(
        course, [], dataclasses.replace(of(RUN, 1030.0), again={"gpt-1": 1030.0}), PACE
    )

    assert ["the run ended at noon, and the run lives again"] == [
        one.ending for one in change.closed
    ]


def test_time_in_which_nobody_looked_confirms_nothing(sighting):
    unsure = sighting(sure=False)
    blind = [(1000.0 + 15 * index, [], NOBODY) for index in range(1, 41)]
    after = [(1600.0 + 15 * index, [unsure], RUN) for index in range(1, 42)]

    _, changes = cycles(EMPTY, (1000.0, [unsure], RUN), *blind, *after)

    opened = [one.opened for change in changes for one in change.opened]
    assert [1000.0 + 600.0 + 600.0] == opened
