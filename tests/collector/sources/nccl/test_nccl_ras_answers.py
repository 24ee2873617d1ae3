"""What RAS says, in JSON and in text, and what of it is shown."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import RankProcess, SourceError
from lockstep.collector.samples.nccl import MAX_RAS_SERIES, collect_ras
from lockstep.collector.sources.nccl.ras import document, text
from lockstep.collector.sources.nccl.ras.communicators import MAX_RANKS, pictured
from lockstep.collector.sources.nccl.ras.endpoint import MAX_PENDING, EventStream
from lockstep.collector.sources.nccl.ras.source import EndpointReading, RasReading

NCCL = Path(__file__).parents[3] / "fixtures" / "nccl"
JSON = (NCCL / "ras-status-2.29.json").read_text()
TEXT = (NCCL / "ras-status-2.24.txt").read_text()
GROUP = "ae94423cfbb2ef4a:b7e7187447156001:b8242ed28a71381e"
NEWER_TEXT = """Communicators... (0.25s)
=============

Group     Comms      Nodes     Ranks     Ranks     Ranks   Status  Errors
    #  in group   per comm  per node  per comm  in group
    0         1          2         4         8         8  RUNNING  MISMATCH
    1         2        1-2         4       4-8        12     INIT  INCOMPLETE

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#1-0 (22a9) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 3 -- GPU 5 managed by process 3487984 on node 172.16.64.213

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-0 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 64
  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1
"""


def rank(number, host="10.0.0.1", launched=5, **status):
    return {
        "rank": number, "host": host, "pid": 1000 + number,
        "status": {
            "init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
            "abort_flag": False,
        } | status,
        "collective_counts": {"AllReduce": launched, "Broadcast": 0},
    }  # fmt: skip


def lost(number, host="10.0.0.2", **status):
    return {
        "rank": number, "host": host, "pid": -1,
        "status": {"unresponsive": True, "considered_dead": False} | status,
    }  # fmt: skip


def communicator(ranks, missing=(), hash_="0x1", **more):
    return {
        "hash": hash_, "secondary_hash": "0x0:0x0",
        "size": len(ranks) + len(missing), "ranks_count": len(ranks),
        "missing_ranks_count": len(missing), "ranks": ranks, "missing_ranks": list(missing),
    } | more  # fmt: skip


def answer(*communicators):
    return json.dumps({"communicators": communicators, "ras": {"timeouts_count": 0}})


def pictures(*answers, living=(), local=("10.0.0.1",)):
    """The last picture of several polls."""
    seen = []
    for one in answers:
        seen = [pictured(document.parse(one), seen, living, lambda host: host in local)]
    return seen[0]


def samples(picture):
    endpoint = EndpointReading("localhost:28028", True, ((0.5, picture),), ())
    return {(s.metric.name, s.labels): s.value for s in collect_ras(RasReading((endpoint,), ()))}


def test_the_references_document_is_read_whole():
    status = document.parse(JSON)
    (one,) = status.communicators

    assert (GROUP, 2, "running", "incomplete", 1) == (
        one.group, one.size, one.status, one.health, one.missing,
    )  # fmt: skip
    assert [0, 1] == [each.rank for each in one.ranks]
    assert {"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"} == set(
        one.ranks[0].launched
    )
    assert ("missing", "unresponsive") == one.ranks[1].states
    assert (0.0, 0) == (status.collection_seconds, status.timeouts)


def test_the_references_report_is_read_whole():
    status = text.parse(TEXT)
    (one,) = status.communicators

    assert {("running", "mismatch"): 1} == status.kinds
    assert ("27a079b828ff1a75", 32, {"any": (6649, 6650)}) == (one.group, one.size, one.launched)
    assert [0, 2, 3, 4, 5, 7] == [each.rank for each in one.ranks]
    assert {6649} == {each.launched["any"] for each in one.ranks}
    assert ("172.16.64.210", 483072) == (one.ranks[0].host, one.ranks[0].pid)


def test_a_real_server_says_the_same_in_both_forms():
    """NCCL 2.28.9 over four ranks on an H200: one communicator of all, eight of one."""
    told = document.parse((NCCL / "ras-status-2.28.9.json").read_text())
    report = text.parse((NCCL / "ras-status-2.28.9.txt").read_text())
    [world] = [one for one in told.communicators if one.size == 4]

    assert {("running", "ok"): 9} == told.kinds == report.kinds
    assert 9 == len(told.communicators)
    assert ([0, 1, 2, 3], "ok", 0) == (
        [one.rank for one in world.ranks], world.health, world.missing,
    )  # fmt: skip
    assert 8 == sum(one.size == 1 for one in told.communicators)
    assert world.launched["all_reduce"][0] > 0
    assert told.whole
    assert not told.rejected


def test_a_newer_report_counts_by_operation_and_names_who_is_lost():
    status = text.parse(NEWER_TEXT.replace("\n", "\r\n"))
    incomplete, mismatch = status.communicators

    assert (0.25, 2) == (status.collection_seconds, status.timeouts)
    assert {("running", "mismatch"): 1, ("init", "incomplete"): 2} == status.kinds
    assert (None, 1) == (incomplete.size, incomplete.missing)
    assert [(3, ("dead", "missing"))] == [(each.rank, each.states) for each in incomplete.ranks]
    assert {"all_reduce": (60, 64)} == mismatch.launched
    assert [(7, {"all_reduce": 60})] == [(each.rank, each.launched) for each in mismatch.ranks]


@pytest.mark.parametrize(
    ("told", "status", "health"),
    [
        (communicator([rank(0), rank(1)]), "running", "ok"),
        (communicator([rank(0), rank(1, launched=4)]), "running", "mismatch"),
        (communicator([rank(0)], [lost(1)]), "running", "incomplete"),
        (communicator([rank(0, async_error=6), rank(1)]), "running", "error"),
        (communicator([rank(0, init_state=7), rank(1, init_state=7)]), "init", "ok"),
        (communicator([rank(0), rank(1, finalize_called=True)]), "finalize", "mismatch"),
        (communicator([rank(0, abort_flag=True), rank(1, abort_flag=True)]), "abort", "ok"),
        (communicator([], [lost(0), lost(1)]), "nocomm", "incomplete"),
    ],
)
def test_status_and_health_follow_the_ranks(told, status, health):
    (one,) = document.parse(answer(told)).communicators

    assert (status, health) == (one.status, one.health)


@pytest.mark.parametrize(
    "broken",
    [
        JSON.replace('"rank": 1,', '"rank": 0,'),
        JSON.replace("0xae94423cfbb2ef4a", "0xzz"),
        JSON.replace('"size": 2', '"size": 1'),
        "[" * 100_000,
        "[]",
        "{}",
        "",
    ],
)
def test_a_document_of_which_nothing_is_understood_is_one_error_and_no_value(broken):
    with pytest.raises(SourceError, match="does not hold together"):
        document.parse(broken)


@pytest.mark.parametrize(
    ("broken", "ranks", "counted"),
    [
        (JSON[:-200], [0], True),
        (JSON.replace('"AllReduce": 0', '"AllReduce": -1'), [0, 1], True),
        (JSON.replace('"AllReduce": 0', '"AllReduce": true'), [0, 1], True),
        (JSON.replace('"AllReduce"', '"All{}Reduce"'), [0, 1], True),
        (JSON.replace('"init_state": 0', '"init_state": nul'), [1], True),
        (JSON.replace('"pid": 1524344', '"pid": "one"'), [0, 1], False),
        (JSON.replace("0.000", "NaN"), [0, 1], False),
    ],
)
def test_what_is_broken_is_left_out_and_counted_and_the_rest_stands(broken, ranks, counted):
    status = document.parse(broken)

    assert [GROUP] == [one.group for one in status.communicators]
    assert ranks == [each.rank for each in status.communicators[0].ranks]
    assert counted == bool(status.rejected)
    assert {"not_understood"} >= {each.reason for each in status.rejected}
    assert 0 == status.communicators[0].ranks[0].launched.get("all_reduce", 0)


def test_operations_of_newer_builds_are_taken_as_they_come():
    told = rank(0)
    told["collective_counts"]["AllToAllV"] = 3

    (one,) = document.parse(answer(communicator([told]))).communicators
    assert (3, 3) == one.launched["all_to_all_v"]


def test_a_report_without_its_communicators_is_an_error():
    with pytest.raises(SourceError, match="names no communicators"):
        text.parse("Job summary\n===========\n")


def test_a_report_of_an_impossible_operation_counts_that_line_and_keeps_the_rest():
    status = text.parse(NEWER_TEXT.replace("AllReduce", "9Reduce"))

    assert {("running", "mismatch"): 1, ("init", "incomplete"): 2} == status.kinds
    assert [{}, None] == [one.launched for one in status.communicators]
    assert 3 == len(status.rejected)


def test_a_document_of_more_values_than_ras_has_is_an_error():
    with pytest.raises(SourceError, match="values"):
        document.parse("[" + "[]," * 600_000 + "0]")


def test_a_mismatch_that_moves_is_not_stuck():
    moving = [
        answer(communicator([rank(0, launched=n), rank(1, launched=n - 1)])) for n in (5, 6, 7)
    ]

    assert [False] == [group.stuck for group in pictures(*moving).groups]


def test_a_mismatch_that_stands_still_over_three_polls_is_stuck():
    still = answer(communicator([rank(0, launched=5), rank(1, launched=4)]))

    assert [False] == [group.stuck for group in pictures(still, still).groups]
    assert [True] == [group.stuck for group in pictures(still, still, still).groups]


def test_ranks_that_stand_still_together_are_not_stuck():
    even = answer(communicator([rank(0), rank(1)]))

    assert [False] == [group.stuck for group in pictures(even, even, even, even).groups]


def test_a_stuck_text_report_is_stuck_too():
    seen = []
    for _ in range(3):
        seen = [pictured(text.parse(NEWER_TEXT), seen, (), lambda host: False)]

    assert {"78db921d1c117b4a": True, "22a9": False} == {
        group.name: group.stuck for group in seen[0].groups
    }
    assert seen[0].here is None


def test_rank_0_of_the_largest_communicator_decides_who_asks():
    small = communicator([rank(0, "10.0.0.2"), rank(1)], hash_="0x1")
    large = communicator([rank(0), rank(1, "10.0.0.2"), rank(2)], hash_="0x2")

    assert pictures(answer(small, large)).here is True
    assert pictures(answer(small, large), local=("10.0.0.2",)).here is False


def test_a_ring_of_rank_0_with_the_same_process_is_here_and_names_the_run():
    told = answer(communicator([rank(0, "10.0.0.9"), rank(1)]))
    living = [RankProcess("gpt-1", 0, 5), RankProcess("gpt-1", 1, 1001)]

    assert ("gpt-1", True) == (
        pictures(told, living=living).run,
        pictures(told, living=living).here,
    )


def test_of_two_emulated_nodes_of_one_machine_one_asks():
    told = answer(communicator([rank(0), rank(1)]))
    nodes = [[RankProcess("gpt-1", number, 1000 + number)] for number in (0, 1)]

    assert [True, False] == [pictures(told, living=living).here for living in nodes]


def test_where_rank_0_does_not_answer_the_node_of_the_next_rank_asks():
    told = answer(communicator([rank(1), rank(2, "10.0.0.3")], [lost(0, considered_dead=True)]))

    assert pictures(told).here is True
    assert pictures(told, local=("10.0.0.2",)).here is False
    assert pictures(told, living=[RankProcess("gpt-1", 1, 1001)]).here is True


def test_a_process_of_that_number_on_another_node_names_no_run():
    told = answer(communicator([rank(0), rank(1, "10.0.0.2")]))

    assert "" == pictures(told, living=[RankProcess("gpt-1", 1, 1001)]).run


def test_one_rank_of_a_thousand_that_is_late_is_shown_with_its_lag():
    ranks = [rank(n, f"10.0.{n // 8}.3", launched=9 - 4 * (n == 977)) for n in range(1000)]
    values = samples(pictures(answer(communicator(ranks))))

    assert 4 == values[m.NCCL_RANK_LAG.name, ("", "1:0:0", "977", "all_reduce")]
    assert 5 == values[m.NCCL_RANK_LAUNCHED.name, ("", "1:0:0", "977", "all_reduce")]
    assert (5, 9) == tuple(
        values[m.NCCL_COMMUNICATOR_LAUNCHED.name, ("", "1:0:0", "all_reduce", bound)]
        for bound in ("min", "max")
    )
    assert {"977"} == {labels[2] for name, labels in values if name == m.NCCL_RANK_LAUNCHED.name}


def test_an_operation_that_nobody_launched_takes_no_series():
    values = samples(pictures(answer(communicator([rank(0)]))))

    assert not [labels for _, labels in values if "broadcast" in labels]


def test_a_page_shows_at_most_64_ranks_and_the_worst_first():
    crowd = [rank(n, launched=5) for n in range(200)] + [rank(200, "10.9.9.9", async_error=1)]
    values = samples(pictures(answer(communicator(crowd, [lost(201, considered_dead=True)]))))
    shown = {labels[2] for name, labels in values if name.startswith("lockstep_nccl_rank_")}

    assert MAX_RANKS == len(shown)
    assert {"200", "201", "0", "61"} <= shown
    assert 1 == values[m.NCCL_RANK_STATE.name, ("", "1:0:0", "201", "dead")]
    assert 1 == values[m.NCCL_RANK_STATE.name, ("", "1:0:0", "200", "async_error")]


def test_a_thousand_ranks_in_hundreds_of_communicators_take_a_quarter_of_a_page():
    def late(numbers):
        return [rank(n, launched=9 - 4 * (n % 8 == 1)) for n in numbers]

    told = [communicator(late(range(1000)), hash_="0xfff")]
    told += [communicator(late(range(n, n + 8)), hash_=hex(n)) for n in range(0, 1000, 8)]
    values = samples(pictures(answer(*told)))

    assert MAX_RAS_SERIES + 10 > len(values)
    assert ("", "fff:0:0", "1", "all_reduce") in {labels for _, labels in values}


def test_a_run_seen_through_two_addresses_counts_once():
    picture = pictures(answer(communicator([rank(0)])))
    endpoints = tuple(
        EndpointReading(address, True, ((0.5, picture),), (((("", "peer_dead")), 2),))
        for address in ("localhost:28028", "10.0.0.1:28028")
    )
    values = {(s.metric.name, s.labels): s.value for s in collect_ras(RasReading(endpoints, ()))}

    assert 1 == values[m.NCCL_COMMUNICATORS.name, ("", "running", "ok")]
    assert 4 == values[m.NCCL_PEER_EVENTS.name, ("", "peer_dead")]


EVENT = """{ "timestamp": "2025-12-19 13:07:07", "group": "LIFECYCLE", "event": "PEER_DEAD",
  "peer": { "host": "172.16.64.245", "pid": 1524345, "cuda_devs": [1], "nvml_devs": [1] },
  "details": "" }
"""
LINE = "[2025-12-19 13:07:07] PEER_DEAD: Process 1524345 on node 172.16.64.245 managing GPU 1\r\n"


@pytest.mark.parametrize(("in_json", "event"), [(True, EVENT), (False, LINE)])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_are_found_however_the_stream_is_cut(in_json, event, size):
    data, stream, names = (event * 3).encode(), EventStream(in_json), []
    for start in range(0, len(data), size):
        names += stream.feed(data[start : start + size])

    assert ["peer_dead"] * 3 == names


@pytest.mark.parametrize(
    ("in_json", "data"),
    [(True, b"HTTP/1.1"), (True, b'{"event": 7}'), (True, b"{}"), (True, b'{"event": "a b"}'),
     (False, b"what\n"), (True, b"{" + b" " * MAX_PENDING), (False, b"x" * (MAX_PENDING + 1))],
)  # fmt: skip
def test_a_stream_of_something_else_is_an_error(in_json, data):
    with pytest.raises(SourceError):
        EventStream(in_json).feed(data)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_document_with_any_value_replaced_is_read_or_refused(data):
    tree = json.loads(JSON)
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or not node[key] or data.draw(st.booleans()):
            node[key] = data.draw(JSON_VALUES)
            break
        node = node[key]
    try:
        status = document.parse(json.dumps(tree))
    except SourceError:
        return
    values = samples(pictured(status, (), (), lambda host: False)).values()

    assert all(math.isfinite(value) and value >= 0 for value in values)


@given(st.integers(0, len(NEWER_TEXT)), st.text(max_size=30), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_a_report_with_anything_in_it_is_read_or_refused(at, noise, cut):
    try:
        status = text.parse(NEWER_TEXT[:at] + noise + NEWER_TEXT[at + cut :])
    except SourceError:
        return
    values = samples(pictured(status, (), (), lambda host: False)).values()

    assert all(math.isfinite(value) and value >= 0 for value in values)


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_stream_of_noise_gives_events_or_one_error(data, in_json):
    try:
        names = EventStream(in_json).feed(data)
    except SourceError:
        return

    assert all(name.islower() for name in names)


def test_a_comma_that_nccl_2_28_forgets_where_a_rank_is_missing_costs_nothing():
    """NCCL 2.28.7 and 2.28.9, src/ras/client_support.cc:1963."""
    head, _, tail = JSON.rpartition('"nvml_dev": 1,')
    broken = f'{head}"nvml_dev": 1{tail}'

    with pytest.raises(ValueError, match="delimiter"):
        json.loads(broken)
    assert document.parse(JSON) == document.parse(broken)


def test_two_communicators_of_which_one_is_broken_leave_the_other():
    good, bad = communicator([rank(0), rank(1)]), communicator([rank(0), rank(1)], hash_="0x2")
    whole = json.dumps({"communicators_count": 2, "communicators": [good, bad]}, indent=2)
    at = whole.rindex('"init_state": 0')
    status = document.parse(f"{whole[:at]}#{whole[at:]}")
    first, second = status.communicators

    assert (2, {"all_reduce": (5, 5), "broadcast": (0, 0)}) == (first.size, first.launched)
    assert ("2:0:0", None, [0]) == (
        second.group,
        second.launched,
        [one.rank for one in second.ranks],
    )
    assert ({}, False, True) == (status.kinds, status.whole, bool(status.rejected))
