"""What an open finding costs is counted look by look, and never falls."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.findings.finding import Change, Kind, Tier, WatchFinding, Who
from lockstep.analyzer.findings.finding_lifecycle import Course
from lockstep.analyzer.shapes.run import Culprit, Verdict
from lockstep.watch.findings import RunCost, with_costs

WHO = Who("gpt-1", "node-2", 2, 0, None)
SLOW = WatchFinding(
    who=WHO, kind=Kind.SLOW, scope="rank", attempt=0, cause="thermal", tier=Tier.PAGE,
    confidence=0.9, slowdown=1.5, onset=900.0, first_seen=990.0, opened=1000.0, seen=1000.0,
    closed=None, sentence="Rank 2 is slow.", facts=(), folder="gpt-1/x",
)  # fmt: skip
STOP = dataclasses.replace(SLOW, kind=Kind.STOP)


def verdict(slowdown: float | None = 1.25, **more) -> Verdict:
    culprit = Culprit("rank", 2, "node-2", 0, None, None, None, None, None, None, None, None, 1.5,
                      None, "thermal", 0.9, "page", ())  # fmt: skip
    return Verdict("gpt-1", "degraded", "", slowdown, None, None, 1.0, (culprit,), **more)


def counted(finding: WatchFinding, run: RunCost | None, now: float) -> WatchFinding:
    course = Course({(finding.who, finding.tier): finding}, {})
    runs = {} if run is None else {"gpt-1": run}
    after, change = with_costs(course, Change(still=(finding,)), runs, now)
    assert (change.still[0],) == tuple(after.open.values())
    return change.still[0]


def seen(finding: WatchFinding, now: float) -> WatchFinding:
    return dataclasses.replace(finding, seen=now)


def test_from_the_onset_on_all_ranks_lose_the_share_of_the_step_that_is_lost():
    first = counted(SLOW, RunCost(8, "GPU", verdict()), 1000.0)
    second = counted(seen(first, 1060.0), RunCost(8, "GPU", verdict()), 1060.0)

    # 1 - 1 / 1.25 of 8 GPUs for 100 s, and 60 s more.
    assert [pytest.approx(160.0), pytest.approx(256.0)] == [first.lost_seconds, second.lost_seconds]
    assert "0.07 GPU-hours" not in second.summary
    assert "It lasts for 3 min, 256 GPU-seconds lost so far." in second.summary


def test_where_several_are_slow_it_is_what_mending_this_node_gives_back():
    fixes = {"fixes": [{"remove": "node-2", "gain": 0.1}, {"remove": "node-0", "gain": 0.05}]}

    found = counted(SLOW, RunCost(8, "rank", verdict(what_if=fixes)), 1000.0)

    assert (pytest.approx(80.0), "rank") == (found.lost_seconds, found.unit)


@pytest.mark.parametrize(
    "what_if", [{}, {"fixes": [{"remove": "node-2", "gain": 0.2}]}], ids=["slowdown", "gain"]
)
def test_two_findings_of_one_slowdown_cost_it_once(what_if):
    other = dataclasses.replace(SLOW, who=dataclasses.replace(WHO, rank=3, gpu=1), folder="gpt-1/y")
    told = verdict(what_if=what_if)
    second = dataclasses.replace(told.culprits[0], rank=3, gpu=1)
    told = dataclasses.replace(told, culprits=(*told.culprits, second))
    course = Course({(one.who, one.tier): one for one in (SLOW, other)}, {})

    _, change = with_costs(
        course, Change(still=(SLOW, other)), {"gpt-1": RunCost(8, "GPU", told)}, 1000.0
    )

    assert 160.0 == pytest.approx(sum(one.lost_seconds or 0.0 for one in change.still))


def test_what_no_diagnosis_tells_is_not_known_to_cost_anything():
    for run in (None, RunCost(8, "GPU"), RunCost(8, "GPU", verdict(None))):
        assert counted(SLOW, run, 1000.0).lost_seconds is None
    assert "lost" not in SLOW.summary


def test_a_run_that_stands_loses_all_its_ranks_from_its_last_step_on():
    stands = counted(STOP, RunCost(8, "GPU", None, 950.0), 1000.0)

    assert 8 * 50.0 == stands.lost_seconds
    # It has ended: whose GPUs they are now, nobody here knows.
    assert 8 * 50.0 == counted(seen(stands, 1060.0), None, 1060.0).lost_seconds


@given(
    st.lists(
        st.tuples(
            st.floats(-100.0, 500.0), st.one_of(st.none(), st.floats(0.1, 5.0)), st.booleans(),
            st.sampled_from([Kind.SLOW, Kind.STOP, Kind.EVENT, Kind.HARDWARE]),
        ),
        max_size=20,
    )
)  # fmt: skip
def test_it_never_falls_whatever_clocks_and_diagnoses_do(steps):
    finding, now = SLOW, 1000.0
    for later, slowdown, is_seen, kind in steps:
        now += later
        before = finding.lost_seconds or 0.0
        finding = dataclasses.replace(finding, kind=kind, seen=now if is_seen else now - 1.0)
        run = RunCost(8, "GPU", verdict(slowdown), now - 10.0 if is_seen else None)
        finding = counted(finding, run, now)
        assert (finding.lost_seconds or 0.0) >= before
