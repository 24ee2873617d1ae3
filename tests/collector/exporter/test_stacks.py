"""`GET /stacks`: who may ask, how often a process is read, and what comes of it."""

import http.client
import json

import pytest

from lockstep.collector.config import Address
from lockstep.collector.contract.stacks import (
    STACKS_AGAIN_SECONDS,
    STACKS_MOST,
    Depth,
    Reader,
    Stacks,
    from_tree,
)
from lockstep.collector.exporter import exporter
from lockstep.collector.exporter.ops import QueryError
from lockstep.collector.exporter.stacks import ForbiddenError, NodeStacks, StacksQuery
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.sources.ranks.rings import Rings


@pytest.fixture
def node(machine, clock, image):
    """A node with ranks 0 and 1 of gpt-1; `read` counts which ranks were read, and how deep."""
    machine.process(100)
    for rank in range(2):
        machine.ring(image(rank=rank))
    read: list[tuple[int, Depth]] = []

    def take(ranks, chosen, depth, proc, clock, seconds):
        read.extend((rank, depth) for rank in chosen)
        return [Stacks(rank, "node-0", 100, "S", 1.0, Reader.PY_SPY) for rank in chosen]

    def make(depth: Depth = Depth.PYTHON) -> NodeStacks:
        rings = Rings(machine.rings, machine.proc, clock)
        return NodeStacks(rings, depth, machine.proc, clock, take)

    make.read = read
    return make


def ranks(body: bytes) -> list[int]:
    return [one.rank for one in from_tree(json.loads(body))]


def test_the_ranks_that_are_asked_for_and_here_are_read(node):
    body = node().answer(StacksQuery("gpt-1", (1, 0, 77)))

    assert [1, 0] == ranks(body)
    assert {"schema_version", "run", "ranks"} == set(json.loads(body))
    assert [(1, Depth.PYTHON), (0, Depth.PYTHON)] == node.read


def test_nobody_is_read_where_it_is_off(node):
    with pytest.raises(ForbiddenError, match=r"\[collector\] stacks = python turns them on"):
        node(Depth.OFF).answer(StacksQuery("gpt-1", (0,)))

    assert [] == node.read


def test_the_setting_and_not_who_asks_says_how_deep(node):
    node(Depth.NATIVE).answer(StacksQuery("gpt-1", (0,)))

    assert [(0, Depth.NATIVE)] == node.read
    with pytest.raises(QueryError):
        StacksQuery.parse("run=gpt-1&ranks=0&native=1")


def test_a_run_that_is_not_here_is_none(node):
    assert node().answer(StacksQuery("gpt-2", (0,))) is None


def test_a_rank_is_not_read_again_within_seconds(node, clock):
    page = node()
    first = page.answer(StacksQuery("gpt-1", (0,)))
    second = page.answer(StacksQuery("gpt-1", (0, 1)))
    clock.now += STACKS_AGAIN_SECONDS
    page.answer(StacksQuery("gpt-1", (0,)))

    assert ([0], [0, 1]) == (ranks(first), ranks(second))
    assert [0, 1, 0] == [rank for rank, _ in node.read]


@pytest.mark.parametrize(
    "query",
    [
        "", "run=a", "ranks=1", "run=a&ranks=", "run=a&ranks=x", "run=a&ranks=1,,2",
        "run=a&ranks=-1", "run=a&ranks=1&ranks=2", "run=a&ranks=1&depth=native", "run=&ranks=1",
        "run=a&ranks=" + "9" * 40, "run=a&ranks=" + ",".join("1" * (STACKS_MOST + 1)),
        "&".join("a" * 20), "run=a&ranks=%D9%A1",
    ],
)  # fmt: skip
def test_a_wrong_query_is_refused(query):
    with pytest.raises(QueryError):
        StacksQuery.parse(query)


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/stacks?run=gpt-1&ranks=0", 403, "stacks are off here"),
        ("/stacks?run=gpt-1", 400, "the query needs ranks"),
    ],
)
def test_a_collector_as_it_is_refuses(machine, clock, path, code, words):
    config = machine.config(listen=Address("127.0.0.1", 0))
    server = exporter.Exporter(config, Sampler((), clock, 5.0), clock).serve()
    server.start()
    try:
        connection = http.client.HTTPConnection(*server.address, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
    finally:
        server.stop()

    assert code == answer.status
    assert words in said
