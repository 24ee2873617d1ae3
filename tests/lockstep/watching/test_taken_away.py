"""Nothing is expected of a node that was taken away on purpose; of one that fails it is."""

from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.analyzer.findings.closable import TAKEN_AWAY, Closable
from lockstep.analyzer.findings.finding import Kind, Who
from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.watch.judge.inventory import Inventory
from lockstep.watch.judge.memory import Memory
from lockstep.watch.loop.taken_away import SILENT_SECONDS, old_names, taken_away, without

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
