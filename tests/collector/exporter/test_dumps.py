"""`GET /dumps`: what the ranks of a node wrote when they were asked, and what its sensors tell."""

import http.client
import json
import zlib
from base64 import b64decode

import pytest

from lockstep.collector.config import Address
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.flight_recorder import (
    DUMPS_AGAIN_SECONDS,
    DUMPS_SECONDS,
    dump_name,
    request_name,
)
from lockstep.collector.contract.xid_catalogue.shape import Severity
from lockstep.collector.exporter import exporter
from lockstep.collector.exporter.dumps import DumpsQuery, NodeDumps
from lockstep.collector.exporter.ops import QueryError
from lockstep.collector.on_demand.rank_facts import Heard, facts
from lockstep.collector.readings.kernel import Fall, Trouble, XidEvent
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.sources.gpu.xid.source import Told
from lockstep.collector.sources.ranks.rings import Rings, scan

DUMP = json.dumps({"version": "2.10", "entries": [], "pg_status": {}}).encode()


@pytest.fixture
def node(machine, clock, monkeypatch):
    """A node whose ranks answer whenever somebody waits for them; `requests` counts the asking."""
    machine.process(100)

    class Node(NodeDumps):
        told = Heard()
        answering = frozenset((0, 1))
        requests: frozenset[int] | set[int] = frozenset()

        def get(self, run: str = "gpt-1"):
            body = self.answer(DumpsQuery(run))
            return None if body is None else json.loads(body)

    one = Node(Rings(machine.rings, machine.proc, clock), lambda: one.told, machine.proc, clock)
    one.requests = set()
    sleep = type(clock).sleep

    def answered(seconds: float) -> None:
        sleep(clock, seconds)
        for request in machine.rings.rglob(request_name("gpt-1")):
            asked = request.stat().st_mtime_ns
            if asked in one.requests:
                continue
            one.requests.add(asked)
            for rank in one.answering:
                (request.parent / dump_name("gpt-1", rank)).write_bytes(DUMP)

    monkeypatch.setattr(clock, "sleep", answered)
    return one


def test_dumps_come_as_they_were_written_with_what_the_node_knows(machine, image, node):
    machine.ring(image(rank=0))
    machine.ring(image(rank=1))

    got = node.get()

    assert (1, "gpt-1") == (got["schema_version"], got["run"])
    assert [DUMP, DUMP] == [zlib.decompress(b64decode(one["dump"])) for one in got["ranks"]]
    assert [("node-0", 0, 4, "")] * 2 == [
        (one["node"], one["attempt"], one["world"], one["why"]) for one in got["ranks"]
    ]
    assert all(one["phase"] for one in got["ranks"])
    assert all(one["progress_age"] >= 0 for one in got["ranks"])
    assert {"rank": 0, "kind": "process-state", "value": "R"} in got["facts"]
    assert not list(machine.rings.rglob("dump-*"))


def test_a_run_that_is_not_here_is_none_and_nobody_is_asked(machine, image, node):
    machine.ring(image())

    assert node.get("gpt-2") is None
    assert not node.requests


def test_a_rank_that_does_not_answer_costs_its_dump_only_and_a_bounded_time(
    machine, image, node, clock
):
    machine.ring(image(rank=0))
    machine.ring(image(rank=1))
    machine.process(100, state="T")
    node.answering = {0}
    before = clock.monotonic()

    first, second = node.get()["ranks"]

    assert (True, None) == (bool(first["dump"]), second["dump"])
    assert second["why"]
    assert clock.monotonic() - before <= DUMPS_SECONDS + 1


def test_ranks_are_not_asked_again_within_seconds(machine, image, node, clock):
    machine.ring(image(rank=0))

    first, second = node.get(), node.get()
    clock.now += DUMPS_AGAIN_SECONDS
    node.get()

    assert first["ranks"] == second["ranks"]
    assert 2 == len(node.requests)


def test_ranks_of_an_older_attempt_are_neither_asked_nor_told_of(machine, image, node):
    machine.ring(image(rank=0, attempt=1))
    machine.ring(image(rank=1))

    got = node.get()

    assert [0] == [one["rank"] for one in got["ranks"]]
    assert {0} == {one["rank"] for one in got["facts"]}


def test_a_folder_that_may_only_be_read_is_told(machine, image, node, monkeypatch):
    machine.ring(image(rank=0))

    def refused(path):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("lockstep.collector.on_demand.dumps._request", refused)
    monkeypatch.setattr("lockstep.collector.on_demand.dumps.FROZEN_SECONDS", 100.0)
    (rank,) = node.get()["ranks"]

    assert rank["dump"] is None
    assert "Read-only file system" in rank["why"]


@pytest.mark.parametrize("query", ["", "run=", "run=a&run=b", "run=a&step=1", "step=1"])
def test_a_bad_query_is_one_sentence(query):
    with pytest.raises(QueryError) as caught:
        DumpsQuery.parse(query)

    assert "\n" not in str(caught.value)


def test_the_server_refuses_where_dumps_are_off(machine, clock):
    config = machine.config(listen=Address("127.0.0.1", 0), dumps=False)
    server = exporter.Exporter(config, Sampler((), clock, 5.0), clock).serve()
    server.start()
    try:
        connection = http.client.HTTPConnection(*server.address, timeout=60)
        connection.request("GET", "/dumps?run=gpt-1")
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
    finally:
        server.stop()

    assert 403 == answer.status
    assert "[collector] dumps = true turns them on" in said


def test_the_server_answers_it(machine, image, clock):
    machine.process(100)
    machine.ring(image(rank=0))
    config = machine.config(listen=Address("127.0.0.1", 0))
    server = exporter.Exporter(config, Sampler((), clock, 5.0), clock).serve()
    server.start()
    try:
        found = [_get(server, path) for path in ("/dumps?run=gpt-1", "/dumps?run=x", "/dumps")]
    finally:
        server.stop()

    assert [200, 404, 400] == [status for status, _ in found]
    assert "gpt-1" == json.loads(found[0][1])["run"]


def _get(server, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*server.address, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def rows(machine, clock, *samples, errors=()) -> set[tuple[int, str, str]]:
    ranks = scan(machine.rings, machine.proc, clock)[0]
    told = facts(ranks, Heard(tuple(samples), tuple(errors)), machine.proc, clock)
    return {(one["rank"], one["kind"], one["value"]) for one in told}


@pytest.mark.parametrize(
    ("up", "stalled", "action", "said"),
    [(1, 0, 0, "answers"), (0, 0, 0, "lost"), (1, 1, 0, "not responding"),
     (1, 0, 1, "requires reset"), (1, 0, 3, "answers")],
)  # fmt: skip
def test_a_gpu_is_told_of_as_its_source_read_it(machine, image, clock, up, stalled, action, said):
    machine.process(100)
    machine.ring(image(rank=0, uuid="GPU-0"))
    machine.ring(image(rank=1, uuid="GPU-1", gpu=1))
    who = ("0", "GPU-0")
    samples = m.GPU_UP(up, *who), m.GPU_STALLED(stalled, *who), m.GPU_RECOVERY_ACTION(action, *who)

    found = rows(machine, clock, *samples)

    assert [(0, said)] == [(rank, value) for rank, kind, value in found if kind == "gpu-state"]


def test_errors_are_told_of_the_rank_that_they_concern(machine, image, clock):
    machine.process(100)
    machine.process(101)
    machine.ring(image(rank=0, uuid="GPU-0"))
    machine.ring(image(rank=1, uuid="GPU-1", gpu=1, pid=101))
    now = clock.monotonic()
    line = "NVRM: Xid (PCI:0000:65:00): 79, pid=101, GPU has fallen off the bus."
    errors = [
        Told(XidEvent(now, "0000:65:00.0", 79, "kmsg", line), "1", "GPU-1"),
        Told(Fall(now, "0000:65:00.0"), "1", "GPU-1"),
        Told(XidEvent(now - 1e4, "0000:64:00.0", 48, "nvml"), "0", "GPU-0"),
        Told(Trouble(now, "hung_task", Severity.WARNING, "",
                     "task python:100 blocked for more than 120 seconds.")),
        Told(Trouble(now, "oom", Severity.WARNING, "", "Out of memory: Killed process 7 (other)")),
        Told(Trouble(now, "cpu_lockup", Severity.WARNING, "", "rcu: INFO: stall on the node")),
    ]  # fmt: skip

    found = rows(machine, clock, errors=errors)

    assert {
        (1, "xid", f"79 {line}"), (1, "gpu-state", "fallen off the bus"),
        (0, "kernel", "task python:100 blocked for more than 120 seconds."),
        (0, "kernel", "rcu: INFO: stall on the node"),
        (1, "kernel", "rcu: INFO: stall on the node"),
    } == {one for one in found if one[1] in ("xid", "gpu-state", "kernel")}  # fmt: skip


def test_ras_is_heard_where_a_communicator_has_the_ranks_of_the_run(machine, image, clock):
    machine.process(100)
    machine.ring(image(rank=0, world=4))
    samples = [
        m.NCCL_COMMUNICATOR_SIZE(4, "gpt-1", "a"), m.NCCL_COMMUNICATOR_SIZE(2, "gpt-1", "b"),
        m.NCCL_RANK_STATE(1, "gpt-1", "a", "3", "dead"),
        m.NCCL_RANK_STATE(1, "gpt-1", "b", "1", "dead"),
        m.NCCL_RANK_STATE(1, "other", "a", "2", "dead"),
    ]  # fmt: skip

    assert {(3, "ras", "dead")} == {
        one for one in rows(machine, clock, *samples) if one[1] == "ras"
    }


def test_a_rank_that_ended_says_how(machine, image, clock):
    machine.process(1)
    machine.ring(image(rank=0, pid=4_000_000))
    clock.now += 100.0

    found = rows(machine, clock)

    assert (0, "process-state", "gone") in found
    assert not any(kind == "heartbeat-age" for _, kind, _ in found)
