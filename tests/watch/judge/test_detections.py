"""What verdicts, the sequential test and the hardware say becomes what may open a finding."""

import dataclasses
import re

import pytest

from lockstep.analyzer.findings.finding import Kind, Tier, Who
from lockstep.analyzer.hardware.sequential_test.alarms import Alarm
from lockstep.analyzer.hardware.sequential_test.telemetry import CLOCK, OWN
from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.shapes.run import Culprit, Verdict
from lockstep.collector.contract.xid import PAGED
from lockstep.watch.judge import detections
from lockstep.watch.judge.detections import (
    alarmed_ranks,
    columns_by_stream,
    of_alarms,
    of_namesakes,
    of_verdict,
    stuck,
)
from lockstep.watch.judge.hardware import events, lost, node_names, xids
from lockstep.watch.look.members import members, namesakes
from lockstep.watch.look.panel import stream_names


@pytest.fixture
def verdict():
    culprit = Culprit(
        "gpu", 2, "node-1", 0, "GPU-2", 2, 0, 0, None, 40, None, "2026-11-22T10:00:00+00:00", 1.5,
        (1.4, 1.6), "thermal", 0.9, "page", (),
    )  # fmt: skip
    return Verdict("gpt-1", "degraded", "Rank 2 is hot.", 1.5, None, None, 1.0, (culprit,))


@pytest.fixture
def alarm(ranks):
    def make(rank=2, metric=OWN, effect=1.4, until=None, at=1000.0):
        who = ranks()
        return Alarm(
            str(who.node[rank]), 0, str(stream_names(who)[rank]), metric.name, 990.0, at, until,
            1e9, effect, (1.3, 1.5), effect, 1.0, (),
        )  # fmt: skip

    return make


def changed(verdict, **fields):
    return dataclasses.replace(
        verdict, culprits=(dataclasses.replace(verdict.culprits[0], **fields),)
    )


def test_a_culprit_is_sure_when_the_test_reports_its_rank_too(verdict, ranks):
    told = [
        next(of_verdict(verdict, alarmed, ranks(), 5.0)).sure
        for alarmed in (frozenset(), frozenset({3}), frozenset({2}))
    ]

    assert [False, False, True] == told


def test_a_node_is_sure_when_one_of_its_ranks_is_reported(verdict, ranks):
    node = changed(verdict, rank=None, gpu=None, scope="node")

    told = [next(of_verdict(node, frozenset({rank}), ranks(), 5.0)).sure for rank in (1, 2, 3)]

    assert [False, True, True] == told


def test_who_stopped_the_run_is_sure_at_once(verdict, ranks):
    found = next(of_verdict(changed(verdict, slowdown=None), frozenset(), ranks(), 5.0))

    assert (Kind.STOP, True) == (found.kind, found.sure)


def test_what_is_over_is_not_seen(verdict, ranks):
    assert [] == list(of_verdict(changed(verdict, to_step=80), frozenset({2}), ranks(), 5.0))


def test_a_report_that_no_verdict_explains_is_for_the_record_and_not_sure(alarm, ranks):
    found = list(of_alarms([alarm()], ranks(), [], 1000.0, 180.0))

    assert [(2, Tier.RECORD, False)] == [(one.who.rank, one.tier, one.sure) for one in found]


def test_a_report_that_a_verdict_explains_or_that_is_over_is_not_seen(alarm, ranks):
    named = [Who("gpt-1", "node-1", 2, 0, None)]

    assert [] == list(of_alarms([alarm()], ranks(), named, 1000.0, 180.0))
    assert [] == list(of_alarms([alarm(until=995.0)], ranks(), [], 1000.0, 180.0))
    assert [] == list(of_alarms([alarm(effect=1.04)], ranks(), [], 1000.0, 180.0))


def test_a_gpu_that_deviates_has_a_while_to_show_that_it_costs_time(alarm, ranks):
    clock = alarm(metric=CLOCK, effect=0.7)

    told = [next(of_alarms([clock], ranks(), [], now, 180.0)) for now in (1000.0, 1180.0)]

    assert [False, True] == [one.sure for one in told]
    assert ("slow-gpu", "gpu") == (told[0].cause, told[0].scope)


def test_only_own_time_is_what_a_rank_is_reported_for(alarm, ranks):
    alarms = [alarm(1), alarm(2, metric=CLOCK), alarm(3, until=5.0)]

    assert {"gpt-1": {1: 990.0}} == alarmed_ranks(alarms, ranks())


def test_streams_are_looked_up_once_for_any_number_of_alarms(alarm, ranks, monkeypatch):
    built = []
    monkeypatch.setattr(
        detections, "columns_by_stream", lambda who: built.append(who) or columns_by_stream(who)
    )
    alarms = [alarm(rank) for rank in range(8)]

    assert {"gpt-1": dict.fromkeys(range(8), 990.0)} == alarmed_ranks(alarms, ranks())
    assert 1 == len(built)


def test_the_newest_error_of_a_gpu_is_seen_of_the_rank_on_it(ranks):
    target = {"job": "lockstep", "instance": "10.0.0.1:9410", "gpu": "0", "uuid": "GPU-2"}
    answer = [({**target, "xid": xid}, when) for xid, when in (("63", 900.0), ("79", 950.0))]
    who = ranks()

    found = list(xids(events(answer, who, node_names([], who), {}, {}, 960.0)))

    assert [(2, "node-1", 950.0, True)] == [
        (one.who.rank, one.who.node, one.onset, one.sure) for one in found
    ]
    assert "XID 79" in found[0].sentence


def test_watch_asks_for_what_pages_and_not_for_memory_errors_that_were_contained():
    asked = set(re.findall(r'xid=~"([^"]*)"', ask.XIDS))

    assert {"|".join(map(str, PAGED))} == asked
    assert {"62", "143", "149", "154"} < set(asked.pop().split("|")) - {"63", "94"}
    assert 2 == ask.XIDS.count('severity!~"info|warning"')


def test_one_error_is_of_the_run_that_it_hit_whoever_works_on_the_gpu_afterwards(ranks):
    target = {"job": "lockstep", "instance": "10.0.0.1:9410", "gpu": "0", "uuid": "GPU-2"}
    answer, names = [({**target, "xid": "79"}, 950.0)], {("lockstep", "10.0.0.1:9410"): "node-1"}
    here, begun, known, hit = ranks(), {"gpt-1": 0.0, "gpt-2": 980.0}, {}, []

    for fleet in (here, ranks(nodes=0), ranks(run="gpt-2")):
        known = events(answer, fleet, names, begun, known, 990.0)
        hit.append([one.who.run for one in xids(known)])

    assert [["gpt-1"]] * 3 == hit


def test_a_run_that_began_after_an_error_is_not_blamed_for_it(ranks):
    target = {"job": "lockstep", "instance": "10.0.0.1:9410", "gpu": "0", "uuid": "GPU-2"}
    answer, who = [({**target, "xid": "79"}, 950.0)], ranks()

    found = events(answer, who, node_names([], who), {"gpt-1": 960.0}, {}, 990.0)

    assert [Who("", "node-1", None, 0, None)] == [one.who for one in xids(found)]


def test_an_error_goes_on_when_its_run_is_gone_and_is_forgotten_after_an_hour(ranks):
    target = {"job": "lockstep", "instance": "10.0.0.1:9410", "gpu": "0", "uuid": "GPU-2"}
    names, who = {("lockstep", "10.0.0.1:9410"): "node-1"}, ranks()
    known = events([({**target, "xid": "79"}, 950.0)], who, names, {}, {}, 960.0)

    again = events([({**target, "xid": "79"}, 990.0)], ranks(nodes=0), names, {}, known, 1000.0)

    assert [(2, 990.0)] == [(one.who.rank, one.onset) for one in xids(again)]
    assert {} == events([], who, names, {}, again, 990.0 + 3600.0)


def test_a_node_keeps_the_name_that_its_ranks_gave_it(ranks):
    page = [({"job": "lockstep", "instance": "10.0.0.1:9410"}, 1.0)]
    known = {("lockstep", "10.0.0.1:9410"): ("node-1", 5.0)}

    assert ["10.0.0.1:9410"] == list(node_names(page, ranks(nodes=0)).values())
    assert ["node-1"] == list(node_names(page, ranks(nodes=0), known).values())


def test_who_stopped_a_run_is_only_stuck_unless_it_is_gone(verdict, ranks):
    told = [
        stuck(next(of_verdict(changed(verdict, slowdown=None, cause=cause), (), ranks(), 5.0)))
        for cause in ("unknown", "checkpoint", "crash", "freeze", "xid")
    ]

    assert [True, True, False, False, False] == told


def test_hardware_without_a_run_is_seen_too(ranks):
    labels = {"job": "lockstep", "instance": "10.0.0.9:9410", "node": "spare"}

    found = [
        *xids(
            events(
                [({**labels, "gpu": "3", "uuid": "GPU-X", "xid": "48"}, 5.0)],
                ranks(),
                {},
                {},
                {},
                5.0,
            )
        ),
        *lost([(labels, 1.0)], {}, 5.0),
    ]

    assert [("", "spare", 3), ("", "spare", None)] == [
        (one.who.run, one.who.node, one.who.gpu) for one in found
    ]
    assert "spare has lost 1 GPU:" in found[1].sentence


# Two programs that call themselves by one run's name: nobody in it is judged, and that is said.


def info(node: str, pid: str = "1", job: str = "lockstep", rank: str = "0") -> dict[str, str]:
    return {"run": "gpt", "rank": rank, "attempt": "0", "node": node, "pid": pid, "job": job,
            "instance": f"{node}:9410"}  # fmt: skip


def up(*infos: dict[str, str], gone: tuple[str, ...] = ()):
    return lambda: [(one, float(one["node"] not in gone)) for one in infos]


def told(*infos: dict[str, str], gone: tuple[str, ...] = ()):
    return namesakes([(one, 1.0) for one in infos], up(*infos, gone=gone))


def test_a_rank_that_lives_on_two_nodes_is_of_two_programs():
    two = info("node-5"), info("node-1"), info("node-1", rank="1")

    assert {"gpt": ("node-1", "node-5")} == told(*two)
    [said] = of_namesakes(told(*two), members([(one, 1.0) for one in two]), 1000.0)
    assert (Kind.EVENT, Tier.RECORD, True) == (said.kind, said.tier, said.sure)
    assert "Two programs call themselves run gpt, on node-1, node-5" in said.sentence


def test_a_run_that_was_started_again_elsewhere_has_its_name_alone():
    assert {} == told(info("node-1"), info("node-5"), gone=("node-1",))


def test_one_process_that_two_jobs_scrape_is_one():
    assert {} == told(info("node-1"), info("node-1", job="other"))


def test_where_each_rank_is_told_once_nobody_is_asked_more():
    def never():
        raise AssertionError

    assert {} == namesakes([(info("node-1"), 1.0), (info("node-1", rank="1"), 1.0)], never)
