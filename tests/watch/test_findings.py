"""Findings of one run with one signature, in the same minutes, are told by one alert that stays."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.findings.alertmanager.outbox import Outbox
from lockstep.analyzer.findings.alerts import alerts, superseded
from lockstep.analyzer.findings.finding import Change, Kind, Tier, WatchFinding, Who
from lockstep.analyzer.findings.finding_lifecycle import Course, Pace, advance
from lockstep.analyzer.shapes.run import Culprit, Verdict
from lockstep.watch.findings import JOIN_SECONDS, RunCost, with_costs, with_incidents
from lockstep.watch.judge.memory import Memory, from_json, to_json
from tests.analyzer.findings.test_finding_lifecycle import EMPTY, PACE, RUN, of

# What an open finding costs is counted look by look, and never falls.

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


class Cycles:
    """Cycles over what is seen, and the alerts that are told of it."""

    def __init__(self) -> None:
        self.course, self.now, self.outbox = EMPTY, 1000.0, Outbox()
        self.told: list[tuple[float, bool, str, str]] = []
        self.folders: list[str] = []

    def see(self, *seen, seconds=15.0, pace: Pace = PACE):
        self.now += seconds
        course, change = advance(self.course, seen, of(RUN, self.now), pace)
        self.course, change = with_incidents(course, change, self.now)
        self.course = from_json(to_json(Memory(course=self.course))).course  # after a restart, too
        replaced = [old for old, _ in superseded(change.still)]
        over = [*alerts(change.closed), *replaced]
        self.outbox.want(alerts(change.open), self.now, self.now, over)
        for owed in self.outbox.due(self.now):
            labels = owed.alert.labels
            self.told.append((self.now, owed.over is None, labels["node"], labels["tier"]))
            self.outbox.taken([owed], self.now)
        self.folders += [one.folder for one in change.opened]
        return change

    @property
    def firing(self):
        return {(node, tier) for _, fires, node, tier in self.told if fires}


def hot(sighting, rank, tier=Tier.RECORD, **more):
    kind = Kind.HARDWARE if tier is Tier.RECORD else Kind.SLOW
    return dataclasses.replace(sighting(rank, tier=tier, cause="thermal"), kind=kind, **more)


def test_ten_bad_gpus_of_a_run_are_one_alert_that_lists_them(sighting):
    cycles = Cycles()
    for count in range(1, 11):
        change = cycles.see(*(hot(sighting, rank) for rank in range(count)))
    [one] = alerts(change.open)

    assert (10, 10) == (len(cycles.folders), len(cycles.course.open))
    assert {("node-0", "record")} == cycles.firing
    assert 10 == len(one.annotations["places"].splitlines())
    assert one.annotations["summary"].startswith("10 places of run gpt-1 since ")
    assert len(one.annotations["summary"]) <= 120
    assert ("See what these places share before any is taken out.", "") == (
        one.annotations["action"], one.annotations["command"],
    )  # fmt: skip


def test_an_alert_keeps_its_labels_while_the_finding_that_it_began_with_is_open(sighting):
    cycles = Cycles()
    cycles.see(*(hot(sighting, rank) for rank in range(3)))
    for _ in range(30):  # the last two are over
        change = cycles.see(hot(sighting, 0))
    [one] = alerts(change.open)

    assert (1, "node-0") == (len(change.open), one.labels["node"])
    assert {"node-0"} == {node for _, _, node, _ in cycles.told}


def test_when_the_first_is_over_the_labels_are_of_the_place_that_the_command_is_for(sighting):
    cycles = Cycles()
    seen = [hot(sighting, rank, Tier.PAGE) for rank in range(3)]
    cycles.see(seen[0])
    cycles.see(*seen[:2])
    cycles.see(*seen)
    for _ in range(40):
        change = cycles.see(*seen[1:])
    [joint] = alerts(change.open)
    for _ in range(30):
        change = cycles.see(seen[2])
    [one] = alerts(change.open)
    for _ in range(30):
        cycles.see()

    assert ("node-1", cycles.folders[1]) == (joint.labels["node"], joint.annotations["archive"])
    assert ("node-2", "2", cycles.folders[2]) == (
        one.labels["node"], one.labels["rank"], one.annotations["archive"],
    )  # fmt: skip
    assert "node-2" in one.annotations["command"]
    assert {"node-0", "node-1", "node-2"} == {node for node, _ in cycles.firing}
    ends = [node for _, fires, node, _ in cycles.told if not fires]
    assert ["node-0", "node-1", "node-2"] == ends


def test_the_alert_of_a_place_that_recovered_says_where_it_goes_on_and_commands_nothing(sighting):
    cycles = Cycles()
    seen = [hot(sighting, rank, Tier.PAGE) for rank in range(2)]
    cycles.see(*seen)
    for _ in range(40):
        change = cycles.see(seen[1])
    [(old, _)] = superseded(change.still)

    assert ("node-0", cycles.folders[0]) == (old.labels["node"], old.annotations["archive"])
    words = "It is over here, and goes on at rank 1: another alert is about it."
    assert words == old.annotations["summary"]
    assert ("", True) == (old.annotations["command"], old.is_replaced)


def test_what_begins_later_or_is_another_thing_is_another_alert(sighting):
    cycles = Cycles()
    first = hot(sighting, 0)
    cycles.see(first)
    error = dataclasses.replace(sighting(1), kind=Kind.EVENT, cause="xid", signature="xid 79")
    other = dataclasses.replace(error, who=sighting(2).who, signature="xid 48")
    cycles.see(first, error, other)
    cycles.see(first, error, other, hot(sighting, 3), seconds=JOIN_SECONDS + 15.0)

    assert {"node-0", "node-1", "node-2", "node-3"} == {node for node, _ in cycles.firing}


def test_a_second_error_of_a_gpu_is_told_by_an_alert_of_its_own_with_its_own_words(sighting):
    def error(number, onset):
        return dataclasses.replace(
            sighting(1, onset=onset, cause="xid"), kind=Kind.EVENT, slowdown=None,
            signature=f"xid {number}", sentence=f"The driver logged XID {number}.",
        )  # fmt: skip

    cycles = Cycles()
    first = error(48, 1010.0)
    for _ in range(10):
        change = cycles.see(first)
    [before] = alerts(change.open)
    change = cycles.see(error(79, 1160.0))
    [after] = alerts(change.open)
    [over] = change.closed

    assert ("48", "79") == (before.labels["xid"], after.labels["xid"])
    assert before.key != after.key
    assert 2 == len(set(cycles.folders))
    assert "logged XID 79 at 00:19:20 UTC" in after.annotations["summary"]
    assert after.annotations["sentence"].startswith("The driver logged XID 79.")
    assert "The driver logged XID 48. It is over: another error followed, XID 79." == over.summary
    for _ in range(5):
        cycles.see(error(79, 1160.0))
    assert [False] == [fires for _, fires, _, _ in cycles.told if not fires]
    assert 2 == len(cycles.folders)


def test_a_crash_that_follows_a_stop_is_no_part_of_it(sighting):
    stop = dataclasses.replace(sighting(1), kind=Kind.STOP, cause="freeze", slowdown=None)
    crash = dataclasses.replace(sighting(2), kind=Kind.STOP, cause="crash", slowdown=None)
    cycles = Cycles()
    cycles.see(stop)
    cycles.see(stop, crash)

    assert {("node-1", "page"), ("node-2", "page")} == cycles.firing


def test_records_that_become_pages_are_told_once_more_as_one_and_the_records_end(sighting):
    cycles = Cycles()
    for _ in range(3):
        cycles.see(*(hot(sighting, rank) for rank in range(3)))
    cycles.see(*(hot(sighting, rank, Tier.PAGE) for rank in range(3)), seconds=600.0)
    for _ in range(4):
        change = cycles.see(*(hot(sighting, rank, Tier.PAGE) for rank in range(3)))

    assert {("node-0", "record"), ("node-0", "page")} == cycles.firing
    assert [("node-0", "record")] == [one[2:] for one in cycles.told if not one[1]]
    assert 3 == len(cycles.folders) == len(change.open)


def test_the_cause_of_the_first_moves_the_alert_of_all_once(sighting):
    cycles = Cycles()
    seen = [sighting(rank, cause="unknown") for rank in range(3)]
    cycles.see(*seen)
    known = [dataclasses.replace(seen[0], cause="thermal"), *seen[1:]]
    change = cycles.see(*known)
    [one] = alerts(change.open)
    causes = {old.labels["cause"] for old, _ in superseded(change.still)}

    assert ("thermal", {"unknown"}) == (one.labels["cause"], causes)
    assert 3 == len(one.annotations["places"].splitlines())


def test_of_what_is_quiet_nobody_is_told(sighting):
    cycles = Cycles()
    quiet = dataclasses.replace(sighting(1, tier=Tier.RECORD), kind=Kind.STOP, quiet=True)
    change = cycles.see(quiet)

    assert (1, []) == (len(change.opened), cycles.told)
    assert isinstance(cycles.course, Course)
