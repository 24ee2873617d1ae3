"""A node that is renamed while a finding about it is open: nobody is told twice."""

from dataclasses import replace

from lockstep.analyzer.findings.finding_lifecycle import Course, Pace, advance
from lockstep.watch.judge.members import members
from lockstep.watch.judge.node_names import by_old_names, gpus, other_machines, renamed
from tests.analyzer.findings.test_finding_lifecycle import EMPTY, RUN, of

PAGE = ("lockstep", "a:9410")


def test_a_renamed_node_is_the_same_until_its_finding_is_over(sighting):
    slow = sighting()
    course, _ = advance(EMPTY, [slow], of(RUN, 1000.0), Pace(600.0, 300.0))
    called = replace(slow, who=replace(slow.who, node="host-2"))

    names = renamed({}, {PAGE: ("node-2", 990.0)}, {PAGE: "host-2"}, course)
    again = renamed(names, {PAGE: ("host-2", 1000.0)}, {PAGE: "gpu-2"}, course)

    assert {"host-2": "node-2"} == names
    assert "node-2" == again["gpu-2"]
    assert [slow] == list(by_old_names([called], names, course))
    # Of whom nothing is open under the old name keeps the new one.
    other = sighting(1)
    assert [other] == list(by_old_names([other], names, course))
    assert {} == renamed(names, {}, {PAGE: "host-2"}, Course({}, {}))


def test_a_name_that_another_page_has_now_is_no_old_name(sighting):
    course, _ = advance(EMPTY, [sighting()], of(RUN, 1000.0), Pace(600.0, 300.0))
    other = ("lockstep", "b:9410")

    assert {} == renamed(
        {}, {PAGE: ("node-2", 990.0)}, {PAGE: "node-7", other: "node-2"}, course
    )  # fmt: skip


def test_an_address_that_another_machine_took_is_no_renamed_node(sighting):
    course, _ = advance(EMPTY, [sighting()], of(RUN, 1000.0), Pace(600.0, 300.0))
    before = {PAGE: frozenset({"GPU-1", "GPU-2"})}
    known, names = {PAGE: ("node-2", 990.0)}, {PAGE: "node-7"}
    another = other_machines(before, {PAGE: frozenset({"GPU-8"})})

    assert {} == renamed({}, known, names, course, another)
    for here in ({PAGE: frozenset({"GPU-2", "GPU-9"})}, {}):  # one was replaced; nothing is told
        same = other_machines(before, here)
        assert {"node-7": "node-2"} == renamed({}, known, names, course, same)
    assert frozenset() == other_machines({}, before)


def test_the_gpus_behind_a_page_are_those_of_its_ranks():
    rank = {"run": "gpt-1", "job": PAGE[0], "instance": PAGE[1], "node": "node-2"}
    told = [({**rank, "rank": str(each), "uuid": uuid}, 1.0)
            for each, uuid in enumerate(["GPU-1", "GPU-2", ""])]  # fmt: skip

    assert {PAGE: frozenset({"GPU-1", "GPU-2"})} == gpus(members(told))
