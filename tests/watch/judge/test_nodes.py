"""Nothing is expected of a node that was taken away on purpose; of one that fails it is."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.analyzer.findings.closable import TAKEN_AWAY, Closable
from lockstep.analyzer.findings.finding import Kind, Who
from lockstep.analyzer.findings.finding_lifecycle import Course, Pace, advance
from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.watch.judge.hardware import Inventory
from lockstep.watch.judge.memory import Memory
from lockstep.watch.judge.presence import (
    SILENT_SECONDS,
    by_old_names,
    gpus,
    old_names,
    other_machines,
    renamed,
    taken_away,
    without,
)
from lockstep.watch.look.members import members
from tests.analyzer.findings.test_finding_lifecycle import EMPTY, RUN, of

NOW = 10_000.0
HERE, GONE = ("lockstep", "10.0.0.1:9410"), ("lockstep", "10.0.0.2:9410")
LABELS = {"job": GONE[0], "instance": GONE[1]}
MEMORY = Memory(
    nodes={HERE: ("node-1", NOW), GONE: ("node-2", NOW - SILENT_SECONDS)},
    inventory=Inventory(
        nodes={("node-1",): (1.0, NOW), ("node-2",): (1.0, NOW - 200.0)},
        links={("node-2", "0", "GPU-2"): (18.0, NOW - 200.0)},
        ports={("node-1", "mlx5_0", "1"): (1.0, NOW)},
    ),
)  # fmt: skip


class Scraping:
    """A Prometheus that says of which pages it tries what, and which nodes Kubernetes has."""

    def __init__(self, *gone: float, up: bool = True, nodes: tuple[str, ...] = ()) -> None:
        self.gone, self.up, self.nodes = gone, up, nodes

    def instant(self, query: str, _: float, *, every: bool = False) -> list[Any]:
        if query == ask.NODES:
            return [({"node": node}, 1.0) for node in self.nodes]
        here = [({"job": HERE[0], "instance": HERE[1]}, 1.0)]
        return [*here, *((LABELS, value) for value in self.gone)] if self.up else []


class Failing(Scraping):
    def instant(self, query: str, _: float, *, every: bool = False) -> list[Any]:
        raise SourceError(query)


def gone(prometheus: Scraping, memory: Memory = MEMORY) -> dict[Any, str]:
    seen = SimpleNamespace(now=NOW, pages=[({"job": HERE[0], "instance": HERE[1]}, NOW)])
    return taken_away(prometheus, seen, memory, 15.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prometheus", "found"),
    [
        (Scraping(), {GONE: "node-2"}),
        (Scraping(nodes=("node-1",)), {GONE: "node-2"}),
        (Scraping(nodes=("node-1", "node-2")), {}),  # only its collector is gone
        (Scraping(0.0), {}),  # it is scraped, and does not answer
        (Scraping(1.0), {}),  # it answers, and its page is slow
        (Scraping(up=False), {}),  # as behind a federation
        (Failing(), {}),
    ],
)
def test_a_node_is_taken_away_where_nobody_tries_its_page_and_nobody_lists_it(
    prometheus: Scraping, found: dict[Any, str]
) -> None:
    assert found == gone(prometheus)


def test_what_was_taken_away_is_expected_no_more_and_what_is_there_is() -> None:
    after = without(MEMORY, gone(Scraping()))

    assert {HERE} == after.nodes.keys()
    assert ({("node-1",)}, set(), {("node-1", "mlx5_0", "1")}) == (
        after.inventory.nodes.keys(), after.inventory.links.keys(), after.inventory.ports.keys(),
    )  # fmt: skip


def test_of_a_node_that_is_renamed_the_old_name_is_expected_no_more() -> None:
    renamed = {HERE: "host-1", GONE: "node-2"}

    assert {"node-1"} == old_names(MEMORY, renamed, ())
    assert set() == old_names(MEMORY, renamed, {HERE})  # another machine has its address
    assert {"node-2"} == old_names(MEMORY, {HERE: "host-1", GONE: "node-1"}, ())


def test_nothing_is_wrong_any_more_with_a_node_that_was_taken_away() -> None:
    judged = Closable(NOW, frozenset({""}), {}, taken_away=frozenset({"node-2"}))

    assert [TAKEN_AWAY, None] == [
        judged.ending(Who("", node, None, 0, None), Kind.EVENT, 1.0)
        for node in ("node-2", "node-1")
    ]


# A node that is renamed while a finding about it is open: nobody is told twice.

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
