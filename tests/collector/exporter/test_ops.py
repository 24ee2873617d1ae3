import http.client
import json
import threading

import pytest

from lockstep.collector.config import Address
from lockstep.collector.contract import archive
from lockstep.collector.exporter import exporter
from lockstep.collector.exporter.ops import OpsQuery, QueryError, UnreadableError, answer, rank_json
from lockstep.collector.recorder.rows import rank_answers
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.rings import Rings


@pytest.fixture
def ask(machine):
    machine.process(100)
    rejected = []

    def ask(query: str):
        body = answer(
            OpsQuery.parse(query),
            Rings(machine.rings, machine.proc, machine.clock),
            machine.clock,
            rejected.append,
        )
        return None if body is None else json.loads(body)

    ask.rejected = rejected
    return ask


def test_the_window_of_every_rank_of_the_run_is_given(machine, image, ask):
    machine.ring(image(rank=1).training(10))
    machine.ring(image(rank=0).training(10), "pod")
    machine.ring(image(rank=2, run="other").training(10))

    got = ask("run=gpt-1&from_step=3&to_step=5")

    assert (got["schema_version"], got["run"]) == (archive.SCHEMA_VERSION, "gpt-1")
    assert [rank["rank"] for rank in got["ranks"]] == [0, 1]
    assert got["ranks"][0]["steps"]["step"] == [3, 4]
    assert set(got["ranks"][0]["ops"]["step"]) == {3, 4}
    assert tuple(got["ranks"][0]["steps"]) == archive.OPS_JSON_STEPS
    assert tuple(got["ranks"][0]["ops"]) == archive.OPS_JSON_OPS


def test_the_answer_of_an_older_collector_has_no_waiting_and_the_own_time_gives_it(
    machine, image, ask
):
    told = image().training(3)
    told.step(3, 10**12, 50_000_000, known=False)
    machine.ring(told)
    got = ask("run=gpt-1")
    (ours,) = rank_answers(json.dumps(got).encode(), "gpt-1")
    waits = got["ranks"][0]["steps"].pop("wait_ns")
    (older,) = rank_answers(json.dumps(got).encode(), "gpt-1")

    assert [37_500_000] * 3 + [None] == waits
    assert waits == [step.wait_ns for step in ours.steps]
    assert ours == older


def test_a_run_that_is_not_here_is_none(machine, image, ask):
    machine.ring(image().training(1))

    assert ask("run=gpt-2") is None


def test_a_loss_that_is_not_there_is_null(machine, image, ask):
    one = image()
    one.step(0, 10, 20, loss=float("nan"))
    machine.ring(one)

    assert ask("run=gpt-1")["ranks"][0]["steps"]["loss"] == [None]


def test_a_ring_with_hostile_records_costs_that_rank_only(machine, image, ask):
    machine.ring(image(rank=0).training(2))
    bad = image(rank=1)
    bad.op("optimizer", 0, 20, 10)
    machine.ring(bad)

    got = ask("run=gpt-1")

    assert [rank["rank"] for rank in got["ranks"]] == [0]
    assert [1] == [one["rank"] for one in got["unreadable"]]
    assert [one.reason for one in ask.rejected] == ["content"]


@pytest.mark.parametrize("limit", [100_000, 20_000, 2_000, 720])
def test_over_the_cap_the_newest_steps_win(machine, image, clock, limit):
    records = read_records(machine.ring(image().training(500)), 0, None, clock)

    text = rank_json(records, OpsQuery("gpt-1"), limit)

    got = json.loads(text)
    steps = got["steps"]["step"]
    assert len(text) <= limit
    assert got["truncated"]
    assert {"from_step": 0, "to_step": 500 - len(steps)} == got["missing"]
    assert steps == list(range(500 - len(steps), 500))
    assert set(got["ops"]["step"]) == set(steps)


def test_a_full_ring_stays_under_the_cap(machine, image, clock):
    records = read_records(machine.ring(image().training(3000)), 0, None, clock)

    assert len(rank_json(records, OpsQuery("gpt-1"), 10**9)) < archive.OPS_MAX_BYTES_PER_RANK


@pytest.mark.parametrize(
    ("window", "given", "missing"),
    [
        ("from_step=0&to_step=50", [], {"from_step": 0, "to_step": 50}),
        ("from_step=1900&to_step=1990", range(1977, 1990), {"from_step": 1900, "to_step": 1977}),
        ("from_step=1990&to_step=1995", range(1990, 1995), None),
        ("from_step=2999&to_step=9999", [2999], None),
        ("from_step=5000", [], None),
        ("from_step=50&to_step=50", [], None),
    ],
)
def test_steps_that_were_overwritten_are_said_to_be_missing(
    machine, image, ask, window, given, missing
):
    machine.ring(image().training(3000))

    (rank,) = ask(f"run=gpt-1&{window}")["ranks"]

    assert 1977 == rank["first_step_held"]
    assert list(given) == rank["steps"]["step"]
    assert (missing, missing is not None) == (rank["missing"], rank["truncated"])


def test_a_ring_without_a_record_misses_nothing(machine, image, ask):
    machine.ring(image())

    (rank,) = ask("run=gpt-1")["ranks"]

    assert (None, None, []) == (rank["first_step_held"], rank["missing"], rank["steps"]["step"])


def test_a_run_that_is_here_and_cannot_be_read_is_not_a_run_that_is_not_here(machine, image, ask):
    bad = image()
    bad.op("optimizer", 0, 20, 10)
    machine.ring(bad)

    with pytest.raises(UnreadableError) as caught:
        ask("run=gpt-1")

    assert "rank 0: operation record" in str(caught.value)
    assert ask("run=gpt-2") is None


@pytest.mark.parametrize(
    "query",
    [
        "",
        "run=",
        "from_step=1",
        "run=a&run=b",
        "run=a&from_step=-1",
        "run=a&from_step=x",
        "run=a&to_step=1.5",
        "run=a&to_step=",
        "run=a&from_step=" + "9" * 30,
        "run=a&step=1",
        "&".join(f"a{n}=1" for n in range(50)),
    ],
)
def test_a_bad_query_is_one_sentence(query):
    with pytest.raises(QueryError) as caught:
        OpsQuery.parse(query)

    assert "\n" not in str(caught.value)


def test_the_window_may_be_open():
    assert OpsQuery.parse("run=a%20b") == OpsQuery("a b", 0, None)
    assert OpsQuery.parse("run=a&from_step=0&to_step=0") == OpsQuery("a", 0, 0)


def test_answers_are_made_one_at_a_time(machine, monkeypatch):
    """One may be of many megabytes; several at once would burst the memory of the node's share."""
    inside, most = [], []

    def slow(*_arguments: object) -> bytes:
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.02)
        inside.pop()
        return b"{}"

    monkeypatch.setattr(exporter, "answer", slow)
    config = machine.config(listen=Address("127.0.0.1", 0))
    server = exporter.Exporter(config, Sampler((), machine.clock, 5.0), machine.clock).serve()
    threads = [threading.Thread(target=server.pages.ops, args=(OpsQuery("r"),)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.server_close()

    assert [1] * 5 == most


def test_a_request_under_way_is_answered_whole_before_the_server_ends(machine, monkeypatch):
    began, body = threading.Event(), b"{" + b" " * 300_000 + b"}"

    def slow(*_arguments: object) -> bytes:
        began.set()
        threading.Event().wait(0.3)
        return body

    monkeypatch.setattr(exporter, "answer", slow)
    config = machine.config(listen=Address("127.0.0.1", 0))
    server = exporter.Exporter(config, Sampler((), machine.clock, 5.0), machine.clock).serve()
    server.start()
    answers = []

    def ask() -> None:
        connection = http.client.HTTPConnection(*server.address, timeout=10)
        connection.request("GET", "/ops?run=r")
        answers.append(connection.getresponse().read())
        connection.close()

    asking = threading.Thread(target=ask)
    asking.start()
    began.wait(5)
    server.stop()
    asking.join(5)

    assert [body] == answers
