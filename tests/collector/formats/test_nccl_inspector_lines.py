"""What lines of NCCL Inspector say, from the public samples to noise."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract.bandwidth import OPERATIONS
from lockstep.collector.formats.nccl_inspector import (
    BELONGS,
    SHORTEST,
    Batch,
    LineReader,
    batches,
)
from lockstep.collector.sources.nccl.inspector.source import Sequences
from lockstep.collector.sources.nccl.inspector.totals import (
    IDLE_SECONDS,
    MAX_OPERATIONS,
    WINDOW_SECONDS,
    Tally,
)

HEADER = {"id": "0x7f8c496ae9f661", "comm_name": "dp", "rank": 2, "n_ranks": 8, "nnodes": 1}
METADATA = {
    "inspector_output_format_version": "v4.0", "git_rev": "",
    "rec_mechanism": "nccl_profiler_interface", "dump_timestamp_us": 1748030377748202,
    "hostname": "example-hostname", "pid": 1639453,
}  # fmt: skip
COLL = {
    "coll": "AllReduce", "coll_sn": 1407, "coll_msg_size_bytes": 17179869184,
    "coll_exec_time_us": 61974, "coll_timing_source": "kernel_gpu",
    "coll_algobw_gbs": 277.210914, "coll_busbw_gbs": 485.119099,
}  # fmt: skip
P2P = {
    "p2p": "Send", "p2p_sn": 7, "p2p_peer": 3, "p2p_msg_size_bytes": 1000000,
    "p2p_exec_time_us": 500, "p2p_timing_source": "kernel_cpu", "p2p_algobw_gbs": 2.0,
    "p2p_busbw_gbs": 2.0,
}  # fmt: skip
TRACES = {
    "event_trace_sn": {"coll_start_sn": 1, "coll_stop_sn": 2, "kernel_events": [
        {"channel_id": 0, "kernel_start_sn": 3, "kernel_stop_sn": 48, "kernel_record_sn": 47}]},
    "event_trace_ts": {"coll_start_ts": 1752867229235059, "coll_stop_ts": 1752867229235064,
        "kernel_events": [{"channel_id": 0, "kernel_start_ts": 1752867229235181,
            "kernel_stop_ts": 1752867229275811, "kernel_record_ts": 1752867229275811}]},
}  # fmt: skip


def line(perf: dict = COLL, kind: str = "coll", *, spaced: bool = False, **header) -> bytes:
    tree = {"header": HEADER | header, "metadata": METADATA, f"{kind}_perf": perf}
    return json.dumps(tree, separators=None if spaced else (",", ":")).encode()


def without(tree: dict, *names: str) -> dict:
    return {name: value for name, value in tree.items() if name not in names}


def read_one(text: bytes) -> Batch:
    found, bad = batches([text])
    assert not bad
    assert 1 == len(found)
    return found[0]


def test_the_public_sample_is_read_and_agrees_with_itself():
    one = read_one(line())

    assert ("0x7f8c496ae9f661", "dp", 8, "all_reduce", True, 2) == one.operation
    assert ([1407], [17179869184], [0.061974], 0) == (
        one.sequences, one.sizes, one.seconds, one.disagreeing
    )  # fmt: skip


OLD = without(COLL, "coll_timing_source")
GATHERED = COLL | {
    "coll": "ReduceScatter", "coll_msg_size_bytes": 2147483648, "coll_exec_time_us": 41057,
    "coll_algobw_gbs": 418.439467, "coll_busbw_gbs": 366.134533,
}  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize(
    ("perf", "kind", "op", "size"),
    [
        (COLL, "coll", "all_reduce", 17179869184),
        (OLD, "coll", "all_reduce", 17179869184),
        (GATHERED, "coll", "reduce_scatter", 8 * 2147483648),
        (COLL | TRACES, "coll", "all_reduce", 17179869184),
        (COLL | {"graphCaptured": True}, "coll", "all_reduce", 17179869184),
        ({"coll": "AllReduce", "coll_algo": "RING", "coll_proto": "SIMPLE"}
         | without(COLL, "coll"), "coll", "all_reduce", 17179869184),
        (COLL | {"coll_exec_time_us": 61974.0}, "coll", "all_reduce", 17179869184),
        (COLL | {"new_key": {"of": ["a", "later", "NCCL"]}}, "coll", "all_reduce", 17179869184),
        (without(COLL, "coll_algobw_gbs", "coll_busbw_gbs"), "coll", "all_reduce", 17179869184),
        (P2P, "p2p", "send", 1000000),
        (P2P | {"p2p": "Recv"}, "p2p", "recv", 1000000),
    ],
)  # fmt: skip
def test_every_shape_of_line_is_read_again_and_again(perf, kind, op, size, spaced):
    found, bad = batches([line(perf, kind, spaced=spaced)] * 3)

    assert not bad
    assert (op, [size] * 3, 0) == (found[0].operation.op, found[0].sizes, found[0].disagreeing)
    assert (kind == "coll") == found[0].operation.numbered


@pytest.mark.parametrize("source", ["kernel_gpu", "kernel_cpu", "collective_cpu", "of_tomorrow"])
def test_every_source_of_the_time_is_read(source):
    assert 0 == read_one(line(COLL | {"coll_timing_source": source})).disagreeing


@pytest.mark.parametrize("name", [None, "", "unknown", 7, "x" * 65, "a\nb", "\x1b[2J"])
def test_a_communicator_without_a_usable_name_is_unknown(name):
    header = {} if name is None else {"comm_name": name}
    text = line(**header) if header else line().replace(b'"comm_name":"dp",', b"")

    assert "unknown" == read_one(text).operation.group


@pytest.mark.parametrize("bandwidth", [277.5, 0.0, "nan", 1e308, -277.210914, [1]])
@pytest.mark.parametrize("key", ["coll_algobw_gbs", "coll_busbw_gbs"])
def test_a_bandwidth_that_is_not_what_the_formulas_give_is_counted_and_the_line_stands(
    key, bandwidth
):
    one = read_one(line(COLL | {key: bandwidth}))

    assert (1, [17179869184]) == (one.disagreeing, one.sizes)


def test_a_bandwidth_may_differ_by_what_six_digits_leave_out():
    slow = COLL | {
        "coll_msg_size_bytes": 8192, "coll_exec_time_us": 30_000_000,
        "coll_algobw_gbs": 0.0, "coll_busbw_gbs": 0.0,
    }  # fmt: skip

    assert 0 == read_one(line(slow)).disagreeing


@pytest.mark.parametrize("extra", ["dump_stats", "proxy_perf", "proxy_ops"])
def test_lines_about_something_else_are_no_defect(extra):
    tree = {"header": HEADER, "metadata": METADATA, extra: {"coll_records": 3}}

    assert ([], {}) == batches([json.dumps(tree).encode()])


def bad_line(reason: str, **changes) -> pytest.param:
    return pytest.param(line(COLL | changes), reason, id=f"{reason} {changes}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "json"),
        (b"{" * SHORTEST, "json"),
        (b"[" * 100_000, "json"),
        (b"\xff" * SHORTEST, "json"),
        (line()[:-1], "json"),
        (line() + b"}", "json"),
        (line().decode().encode("utf-16"), "json"),
        (line().replace(b"277.210914", b"inf"), "json"),
        (line().replace(b":1407", b":01407"), "json"),
        (line().replace(b":1407", b":" + b"9" * 5000), "json"),
        (b"[" + b" " * SHORTEST + b"]", "header"),
        (b'{"coll_perf":' + json.dumps(COLL).encode() + b"}", "header"),
        (line(n_ranks=0), "content"),
        (line(n_ranks=1 << 25), "header"),
        (line(n_ranks=True), "content"),
        (line(id=""), "header"),
        (line(id=None), "header"),
        (line(perf=[1] * SHORTEST), "content"),
        bad_line("operation", coll="Gather"),
        bad_line("operation", coll=["AllReduce"]),
        bad_line("operation", coll="all_reduce"),
        bad_line("time", coll_exec_time_us=0),
        bad_line("time", coll_exec_time_us=-5),
        bad_line("time", coll_exec_time_us=10_000_000_000),
        bad_line("time", coll_exec_time_us=(1 << 64) - 5),
        bad_line("content", coll_exec_time_us=1e300),
        bad_line("content", coll_exec_time_us="61974"),
        bad_line("content", coll_exec_time_us=math.nan),
        bad_line("content", coll_exec_time_us=True),
        bad_line("content", coll_msg_size_bytes=0),
        bad_line("content", coll_msg_size_bytes=-1),
        bad_line("content", coll_msg_size_bytes=1.5),
        bad_line("content", coll_msg_size_bytes=1 << 63),
        bad_line("content", coll_sn=-1),
        bad_line("content", coll_sn=None),
    ],
)
def test_a_defect_costs_its_line_and_is_counted_by_reason(text, reason):
    found, bad = batches([line(), text, line()])

    assert 2 == len(found[0].sizes)
    assert [1] == list(bad.values())
    assert reason == next(iter(bad))[0]


def told(lines: list[bytes]) -> dict:
    """What batches give, one line at a time: each is then read by json alone."""
    found: dict = {}
    for one in lines:
        for batch in batches([one])[0]:
            row = (batch.sequences[0], batch.sizes[0], batch.seconds[0], batch.disagreeing)
            found.setdefault(batch.operation, []).append(row)
    return {operation: sorted(rows) for operation, rows in found.items()}


@settings(deadline=None, max_examples=200)
@given(
    st.integers(0, len(line()) - 1), st.integers(0, 40), st.binary(max_size=6),
    st.sampled_from([COLL, OLD, P2P]),
)  # fmt: skip
def test_the_quick_way_never_reads_what_json_does_not(at, cut, noise, perf):
    whole = line(perf, "p2p" if perf is P2P else "coll")
    broken = (whole[:at] + noise + whole[at + cut :]).replace(b"\n", b" ")

    quick, bad = batches([whole, broken, whole, broken])

    slow = told([whole, broken, whole, broken])
    assert set(slow) == {batch.operation for batch in quick}
    for batch in quick:
        rows = slow[batch.operation]
        assert [row[:3] for row in rows] == sorted(
            zip(batch.sequences, batch.sizes, batch.seconds, strict=True)
        )
        assert sum(row[3] for row in rows) == batch.disagreeing
    assert bad.total() in (0, 2)


def batch_of(size: int = 1 << 20, us: float = 100.0, **header) -> Batch:
    perf = without(COLL, "coll_algobw_gbs", "coll_busbw_gbs") | {
        "coll_msg_size_bytes": size, "coll_exec_time_us": us,
    }  # fmt: skip
    return read_one(line(perf, **header))


def test_bandwidths_are_geometric_means_of_the_window():
    tally = Tally()
    for microseconds in (100.0, 400.0):
        tally.add("run", batch_of(us=microseconds))

    (first,) = tally.totals(0.0)[0].sizes
    (old,) = tally.totals(WINDOW_SECONDS)[0].sizes

    assert (1 << 20) / 200e-6 == pytest.approx(first.algorithm)
    assert 1.75 * (1 << 20) / 200e-6 == pytest.approx(first.bus)
    assert ("1MiB-16MiB", 2, 2 << 20) == (first.size, first.count, first.bytes)
    assert (None, None, 2) == (old.algorithm, old.bus, old.count)


def test_a_lone_rank_is_counted_and_has_no_bandwidth():
    tally = Tally()
    tally.add("run", batch_of(n_ranks=1))

    assert (1, None) == (tally.totals(0.0)[0].sizes[0].count, tally.totals(0.0)[0].sizes[0].bus)


def test_operations_are_bounded_and_idle_ones_make_room():
    tally = Tally()

    assert all(tally.add("run", batch_of(comm_name=f"g{n}")) for n in range(MAX_OPERATIONS))
    assert tally.add("run", batch_of(comm_name="g0"))
    assert not tally.add("run", batch_of(comm_name="one more"))
    tally.totals(0.0)
    assert () == tally.totals(IDLE_SECONDS)
    assert tally.add("run", batch_of(comm_name="one more"))


@settings(deadline=None, max_examples=50)
@given(st.sets(st.integers(0, 60), min_size=1), st.randoms(use_true_random=False))
def test_the_numbers_that_never_came_are_counted_whatever_the_order(numbers, random):
    shuffled = list(numbers)
    random.shuffle(shuffled)
    sequences = Sequences()
    for number in shuffled:
        sequences.add(read_one(line(COLL | {"coll_sn": number})))

    assert max(numbers) - min(numbers) + 1 - len(numbers) == sequences.gaps()
    assert 0 == sequences.gaps()


@pytest.mark.parametrize("together", [True, False])
def test_a_number_that_cannot_be_is_no_million_of_gaps(together):
    sequences = Sequences()
    texts = [line(COLL | {"coll_sn": number}) for number in (5, 6, 10**17, 7, 8, 10)]
    for some in [texts] if together else [[one] for one in texts]:
        for batch in batches(some)[0]:
            sequences.add(batch)
    sequences.add(read_one(line(COLL | {"coll_sn": 12})))

    assert sequences.gaps() == (0 if together else 2)


def test_kinds_and_communicators_have_their_own_numbers_and_sends_have_none():
    sequences = Sequences()
    for number in (5, 6):
        sequences.add(read_one(line(COLL | {"coll_sn": number})))
        sequences.add(read_one(line(COLL | {"coll_sn": 90 + number}, id="0x2")))
        sequences.add(read_one(line(COLL | {"coll_sn": 40 + number, "coll": "Broadcast"})))
        sequences.add(read_one(line(P2P | {"p2p_sn": 100 * number}, "p2p")))

    assert 0 == sequences.gaps()


def test_every_operation_of_nccl_is_one_of_our_words():
    words = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce",
             "send", "recv"}  # fmt: skip

    assert words == set(OPERATIONS.values())


def marker(records: int, identity: str = "0xa", name: str = "dp", **more: int) -> bytes:
    """As v4.3 begins what it writes of one communicator."""
    return json.dumps(
        {
            "header": {"id": identity, "comm_name": name, "rank": 2, "n_ranks": 8, "nnodes": 1},
            "metadata": {"inspector_output_format_version": "v4.3", "pid": 7},
            "dump_stats": {"coll_records": records, "coll_dropped_total": 0} | more,
        },
        separators=(",", ":"),
    ).encode()


def record(sequence: int) -> bytes:
    """A line of v4.3: the same as of v4.2, without header and metadata."""
    tree = json.loads(line(COLL | {"coll_sn": sequence}))
    return json.dumps({"coll_perf": tree["coll_perf"]}, separators=(",", ":")).encode()


PROXY = b'{"proxy_trace":{"record_type":"proxy_op","record_sn":42,"parent_type":"coll"}}'


def found(lines: list[bytes]) -> dict[str, list[int]]:
    """Sequence numbers by group."""
    batched, _ = batches(lines)
    return {one.operation.group: one.sequences for one in batched}


def test_a_marker_says_whose_the_lines_behind_it_are():
    lines = [marker(2), record(1), record(2), marker(1, "0xb", "tp", proxy_records=1), record(9),
             PROXY, marker(0, "0xc"), marker(1), record(3)]  # fmt: skip
    batched, bad = batches(lines)

    assert {"dp": [1, 2, 3], "tp": [9]} == {one.operation.group: one.sequences for one in batched}
    assert not bad


def test_a_marker_holds_over_parts_of_a_file_and_not_over_a_gap():
    reader = LineReader()
    first, _ = reader.batches([marker(3), record(1)])
    second, _ = reader.batches([record(2)])
    reader.begin_anew()
    third, bad = reader.batches([record(3)])

    assert [[1], [2], []] == [
        [number for one in part for number in one.sequences] for part in (first, second, third)
    ]
    assert {("header", BELONGS): 1} == bad


def test_lines_before_the_first_marker_belong_to_nobody():
    batched, bad = batches([record(1), marker(1), record(2), marker(0)])

    assert [[2]] == [one.sequences for one in batched]
    assert 1 == bad["header", BELONGS]


def test_more_lines_than_a_marker_counts_are_not_its_own():
    assert {"dp": [1]} == found([marker(1), record(1), record(2)])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([marker(2), record(1), marker(1, "0xb", "tp"), record(2), record(9)], {"dp": [1]}),
        (
            [marker(2), record(1), marker(1, "0xb", "tp"), record(9), marker(1), record(3)],
            {"dp": [1, 3], "tp": [9]},
        ),
        (
            [marker(2), record(1), b"#" * 80, marker(1, "0xb", "tp"), record(9)],
            {"dp": [1], "tp": [9]},
        ),
    ],
)  # fmt: skip
def test_after_a_marker_whose_lines_did_not_all_come_nothing_is_guessed(lines, told):
    assert told == found(lines)


def test_markers_of_older_formats_change_nothing():
    batched, bad = batches(
        [marker(1), line(COLL | {"coll_sn": 1}), marker(0), line(COLL | {"coll_sn": 2})]
    )

    assert [[1, 2]] == [one.sequences for one in batched]
    assert not bad


def test_numbers_of_a_foreign_locale_are_read():
    text = line(COLL | {"coll_sn": 5}).replace(b"277.2", b"277,2").replace(b"485.1", b"485,1")
    batched, bad = batches([text])

    assert text.count(b",210914") == 1
    assert [[5]] == [one.sequences for one in batched]
    assert (0, False) == (batched[0].disagreeing, bool(bad))
