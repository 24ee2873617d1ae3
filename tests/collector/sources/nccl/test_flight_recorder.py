"""Dumps of PyTorch's flight recorder: made by hand and by an enemy."""

import json
import os
import pickle
import struct
import subprocess
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.flight_recorder import dump_name, of_dump
from lockstep.collector.formats.flight_recorder import pickled
from lockstep.collector.formats.flight_recorder.dump import parse
from lockstep.collector.formats.flight_recorder.pickled import as_json
from lockstep.collector.readings.source import RankProcess, SourceError
from lockstep.collector.samples.nccl import collect_dumps
from lockstep.collector.sources.nccl.flight_recorder.missing import missing
from lockstep.collector.sources.nccl.flight_recorder.source import FlightRecorder, request_dump

WROTE = 1_800_000_000.0
NCCL = "nccl:all_reduce"


@pytest.fixture(scope="module", autouse=True)
def patience():
    """No dump is given up because this machine is busy."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pickled, "DEADLINE_SECONDS", 300.0)
        yield


def entry(
    sequence: int, state: str = "scheduled", group: tuple[str, str] = ("0", "default_pg"),
    ago: float = 4.0, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "record_id": sequence, "pg_id": int(group[0]), "process_group": group,
        "collective_seq_id": sequence, "p2p_seq_id": 0, "op_id": sequence, "profiling_name": NCCL,
        "time_created_ns": round((WROTE - ago) * 1e9), "state": state, "retired": False,
        "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
        "is_p2p": False, "frames": [{"name": "f", "filename": "a.py", "line": 1}],
    } | more  # fmt: skip


def tree(
    entries: Iterable[Any] = (), status: Any = None, ranks: str = "[0, 1]", version: str = "2.10"
) -> dict[str, Any]:
    told = {"0": status} if status is not None else {}
    numbers = ("enqueued", "started", "completed")
    return {
        "version": version, "comm_lib_version": "2.29", "nccl_comm_state": {},
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
        "pg_status": {
            key: {f"last_{n}_collective": v for n, v in zip(numbers, values, strict=True)}
            for key, values in told.items()
        },
        "entries": list(entries),
    }  # fmt: skip


def dump(rank, *status, run="gpt-1", at=WROTE, **more):
    """A rank that enqueued, started, completed so many; what is open has waited 4 s."""
    entries = [entry(n) for n in range(status[2] + 1, status[0] + 1)]
    return parse(pickle.dumps(tree(entries, status, **more), 2), run, rank, at)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_is_read_as_python_reads_it(protocol):
    value = tree([entry(n) for n in range(300)], (300, -1, 2**40)) | {"\ud800": None}
    read = json.loads(as_json(pickle.dumps(value, protocol)))
    for each in value["entries"]:
        del each["frames"]  # which nobody reads

    assert read == json.loads(json.dumps(value))


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_with_code_in_it_is_refused_and_nothing_runs(tmp_path, protocol):
    armed = pickle.dumps(tree() | {"version": Trap(tmp_path / "ran")}, protocol)
    with pytest.raises(SourceError) as error:
        parse(armed if protocol else b"\x80\x02" + armed, "", 0, WROTE)

    assert "unsafe" == error.value.reason
    assert not (tmp_path / "ran").exists()
    pickle.loads(armed)  # the trap is real
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (b"cos\nsystem\n", "unsafe"),
        (b"(ios\nsystem\n", "unsafe"),
        (b"X\x02\0\0\0osX\x06\0\0\0system\x93", "unsafe"),
        (b"Pid\n", "unsafe"),
        (b"K\x01Q", "unsafe"),
        # These call or rebuild what was imported before; plain data cannot be called.
        (b"})R", "content"),
        (b"(}o", "content"),
        (b"}}b", "content"),
        (b"})\x81", "content"),
        (b"})}\x92", "content"),
        (b"\x82\x01", "content"),
        (b"\x83\x01\x00", "content"),
        (b"\x84\x01\x00\x00\x00", "content"),
    ],
)
def test_every_instruction_that_could_run_code_is_refused(code, reason):
    with pytest.raises(SourceError) as error:
        as_json(b"\x80\x02" + code + b".")

    assert reason == error.value.reason


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".",  # a byte array of a terabyte
        b"\x80\x02]r\xff\xff\xff\xff.",  # a memo of four billion places
        b"\x80\x02X" + struct.pack("<I", 0xFFFFFFFF) + b"abc.",
        b"\x80\x02}K\x01K\x02s.",
        b"\x80\x02\x8b" + struct.pack("<I", 100_000) + b"\x7f" * 100_000 + b".",  # a huge number
        b"\x80\x02L" + b"9" * 100_000 + b"L\n.",
        b"\x80\x02]q\0h\0a.",  # a list that holds itself
        b"\x80\x02)" + b"\x85" * 100_000 + b".",
        b"\x80\x02(((((((.",
        b"\x80\x02h\x01.",
        b"\x80\x02K",
        b"\x80",
        b"\x80\x02.",
    ],
)
def test_a_broken_pickle_is_one_error(bomb):
    with pytest.raises(SourceError) as error:
        parse(bomb, "", 0, WROTE)

    assert error.value.reason in ("content", "too_large")
    assert len(str(error.value)) < 250


def test_a_pickle_costs_no_more_than_it_may(monkeypatch, tmp_path):
    """Keys of one hash take the square of their number; it is ended, and nothing of it stays."""
    keys = b"".join(
        b"\x8a\x0a" + (n * (2**61 - 1)).to_bytes(10, "little") + b"N" for n in range(1 << 17)
    )
    before = readers()
    child = Path(pickled._CHILD).read_text().replace("CPU_SECONDS = 5", "CPU_SECONDS = 1")
    (tmp_path / "unpickle.py").write_text(child)
    monkeypatch.setattr(pickled, "_CHILD", str(tmp_path / "unpickle.py"))
    with pytest.raises(SourceError) as error:
        parse(b"\x80\x02}(" + keys + b"u.", "", 0, WROTE)

    assert "too_large" == error.value.reason
    assert before == readers()


def test_a_child_that_hangs_or_cannot_start_is_one_error(monkeypatch, tmp_path):
    before = readers()
    (tmp_path / "unpickle.py").write_text("import time\ntime.sleep(100)")
    monkeypatch.setattr(pickled, "_CHILD", str(tmp_path / "unpickle.py"))
    monkeypatch.setattr(pickled, "DEADLINE_SECONDS", 0.2)
    with pytest.raises(SourceError) as hung:
        as_json(b"\x80\x02N.")
    monkeypatch.setattr("sys.executable", str(tmp_path / "absent"))
    with pytest.raises(SourceError) as absent:
        as_json(b"\x80\x02N.")

    assert ["timeout", "no_process"] == [hung.value.reason, absent.value.reason]
    assert before == readers()


def test_the_child_sees_no_secret_and_no_module_of_others(monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TOKEN", "secret")
    asked = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: asked.append(k) or run(*a, **k))

    assert b"null" == as_json(b"\x80\x02N.")
    assert asked[0]["env"].keys() <= {"LD_LIBRARY_PATH"}


def test_threads_read_dumps_side_by_side():
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda n: dump(n, 7, 6, 5), range(8)))

    assert [7] * 8 == [one.groups[0].enqueued for one in read]


def readers():
    """Processes of this one that read dumps, zombies too; others may be a session's fixtures."""
    path = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    found = [Path("/proc", pid, "cmdline").read_bytes() for pid in path.read_text().split()]
    return [line for line in found if not line or b"unpickle.py" in line]


def folded(value, times=200):
    """Two to the power of `times` values that weigh a few bytes each in a pickle."""
    for _ in range(times):
        value = (value, value)
    return value


def nested(depth=5000):
    return b"\x80\x02}X\x07\x00\x00\x00version)" + b"\x85" * depth + b"s."


@pytest.mark.parametrize(
    "data",
    [
        nested(),
        pickle.dumps(tree() | {"version": folded("2.10")}, 2),
        pickle.dumps(tree([entry(1, process_group=(folded("0"), "x"))]), 2),
        pickle.dumps(tree([entry(1, process_group=("0", folded("x")))]), 2),
        pickle.dumps(tree([entry(1, profiling_name=folded(NCCL))]), 2),
        pickle.dumps(tree([entry(folded(1))]), 2),
    ],
)
def test_a_tree_that_takes_years_to_print_or_to_hash_is_one_error(data):
    with pytest.raises(SourceError, match=r"does not hold together|dump of over"):
        parse(data, "", 0, WROTE)


def test_one_list_of_members_for_many_groups_is_not_copied_for_each():
    ranks = list(range(1000))
    value = tree([entry(1, pg_id=n, process_group=(str(n), f"g{n}")) for n in range(100)])
    value["pg_config"] = {str(n): {"name": str(n), "desc": "", "ranks": ranks} for n in range(100)}
    with pytest.raises(SourceError, match="ranks in them"):
        parse(pickle.dumps(value, 2), "", 0, WROTE)


def test_json_of_more_values_than_a_dump_has_is_not_even_read():
    with pytest.raises(SourceError) as error:
        parse(b"[" + b"[]," * 600_000 + b"0]", "", 0, WROTE)

    assert "too_large" == error.value.reason


def test_a_pickle_of_more_values_than_a_dump_has_is_given_up():
    with pytest.raises(SourceError) as error:
        as_json(pickle.dumps([None] * 1_000_001, 2))

    assert "too_large" == error.value.reason


@given(st.binary(max_size=120))
@settings(max_examples=30, deadline=None)
def test_noise_is_no_dump(noise):
    for data in (noise, b"\x80\x02" + noise, b"{" + noise):
        with pytest.raises(SourceError):
            parse(data, "", 0, WROTE)


@given(st.integers(0, 400), st.integers(0, 255), st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_dump_with_one_byte_changed_is_read_or_refused(at, byte, in_json):
    value = tree([entry(1)], (1, 0, 0))
    data = bytearray(json.dumps(value).encode() if in_json else pickle.dumps(value, 2))
    data[at % len(data)] = byte
    try:
        read = parse(bytes(data), "gpt-1", 0, WROTE)
    except SourceError:
        return

    assert all(group.group.isprintable() for group in read.groups)


def test_the_last_of_each_kind_and_what_is_open_are_told():
    (state,) = dump(0, 7, 6, 5).groups

    assert ("world", (0, 1)) == (state.group, state.members)
    assert (7, 6, 5) == (state.enqueued, state.started, state.completed)
    assert [(6, "all_reduce", 4.0), (7, "all_reduce", 4.0)] == [
        (each.sequence, each.op, round(each.waited_seconds, 3)) for each in state.open
    ]


def test_json_says_the_same_as_the_pickle():
    value = tree([entry(7)], (7, 6, 6))
    text = json.loads(json.dumps(value))
    text["pg_status"]["0"] = {key: str(n) for key, n in text["pg_status"]["0"].items()}
    text["entries"][0] |= {"time_discovered_started_ns": 0, "time_discovered_completed_ns": 0}

    assert parse(pickle.dumps(value, 2), "", 0, WROTE) == parse(
        json.dumps(text).encode(), "", 0, WROTE
    )


def test_a_group_without_a_status_is_told_by_its_entries():
    entries = [entry(1, "completed", retired=True), entry(2, "started")]
    (state,) = parse(pickle.dumps(tree(entries), 2), "", 0, WROTE).groups

    assert (2, None, 1) == (state.enqueued, state.started, state.completed)
    assert [2] == [each.sequence for each in state.open]


def test_what_nccl_retired_without_completing_has_timed_out_and_is_open():
    (state,) = parse(
        pickle.dumps(tree([entry(2, "started", retired=True)], (2, 2, 1)), 2), "", 0, WROTE
    ).groups

    assert [2] == [each.sequence for each in state.open]


def test_sends_and_receives_are_no_collectives():
    sent = entry(9, profiling_name="nccl:send 1->2", is_p2p=True)
    (state,) = parse(pickle.dumps(tree([sent], (2, 2, 2)), 2), "", 0, WROTE).groups

    assert (2, ()) == (state.enqueued, state.open)


def test_none_yet_is_absent_and_no_minus_one():
    (state,) = parse(pickle.dumps(tree([], (-1, -1, -1)), 2), "", 0, WROTE).groups

    assert (None, None, None) == (state.enqueued, state.started, state.completed)


@pytest.mark.parametrize(
    ("version", "reasons"),
    [("2.4", []), ("2.5", []), ("2.9", []), ("2.10", []), ("2.11", []), ("3.0", ["version"])],
)
def test_a_newer_version_is_read_as_far_as_it_is_known_and_counted(version, reasons):
    read = dump(0, 7, 6, 5, version=version)

    assert reasons == [each.reason for each in read.rejected]
    assert 7 == read.groups[0].enqueued


@pytest.mark.parametrize(
    "broken",
    [
        {"entries": 7},
        {"version": None},
        {"pg_status": [1]},
    ],
)
def test_a_dump_that_does_not_hold_together_is_one_error(broken):
    with pytest.raises(SourceError, match="does not hold together") as error:
        parse(pickle.dumps(tree() | broken, 2), "", 0, WROTE)

    assert "content" == error.value.reason


@pytest.mark.parametrize(
    "broken",
    [
        {"entries": [entry(1, time_created_ns=None)]},
        {"entries": [entry(1, profiling_name="rm -rf /; all")]},
        {"entries": [entry(-1)]},
        {"entries": [entry(1, process_group=("0",))]},
        {"pg_config": {"0": {"desc": "x", "ranks": "[1, os]"}}, "entries": [entry(1)]},
        {"pg_status": {"0": {"last_enqueued_collective": "7; 8"}}},
    ],
)
def test_what_makes_no_sense_is_left_out_of_a_dump_and_counted(broken):
    read = parse(pickle.dumps(tree() | broken, 2), "", 0, WROTE)

    assert "not_understood" in {each.reason for each in read.rejected}
    assert not [each for state in read.groups for each in state.open]


def test_one_bad_entry_leaves_its_group_without_open_operations_and_with_its_status():
    entries = [entry(6, "started"), entry(7, "started", time_created_ns=None)]
    read = parse(pickle.dumps(tree(entries, (7, 6, 5)), 2), "", 0, WROTE)

    assert [(7, 6, 5, ())] == [
        (one.enqueued, one.started, one.completed, one.open) for one in read.groups
    ]
    assert ["not_understood"] == [each.reason for each in read.rejected]


def test_a_dump_says_its_version_and_that_of_its_library():
    new = dump(0, 7, 6, 5)
    old = tree([], (7, 6, 5), version="2.9") | {"nccl_version": "2.27.3"}
    del old["comm_lib_version"]
    read = parse(pickle.dumps(old, 2), "", 0, WROTE)

    assert [("2.10", "2.29"), ("2.9", "2.27.3")] == [
        (one.version, one.library) for one in (new, read)
    ]


CONFIG = {name: {"name": name, "desc": f"G{name}", "ranks": "[0, 1]"} for name in ("0", "35", "7")}


def of_groups(entries=(), config=CONFIG, numbers=("0", "4", "5")):
    """A rank with several groups: what it counts them by is not what they are called by."""
    status = {
        key: {"last_enqueued_collective": 10 + int(key), "last_completed_collective": 10}
        for key in numbers
    }
    told = tree(entries) | {"pg_config": config, "pg_status": status}
    return parse(pickle.dumps(told, 2), "", 0, WROTE)


def test_groups_without_entries_are_named_by_the_order_in_which_they_were_made():
    read = of_groups([entry(15, "started", pg_id=5, process_group=("35", "G35"))])

    assert {"0": 10, "7": 14, "35": 15} == {one.name: one.enqueued for one in read.groups}
    assert not read.rejected


@pytest.mark.parametrize(
    ("entries", "config", "named"),
    [
        ([], {"0": CONFIG["0"], "7": CONFIG["7"]}, {"0"}),
        ([], {"0": CONFIG["0"], "7": CONFIG["7"], "ab12": CONFIG["35"]}, {"0"}),
        ([entry(15, "started", pg_id=5, process_group=("7", "G7"))], CONFIG, {"0", "7"}),
    ],
)
def test_where_the_order_does_not_tell_a_group_without_entries_has_no_name(entries, config, named):
    read = of_groups(entries, config)

    assert named == {one.name for one in read.groups}
    assert {"not_understood"} == {each.reason for each in read.rejected}


def test_nobody_is_missing_where_all_are_inside():
    assert [] == missing([dump(0, 7, 7, 6), dump(1, 7, 7, 6)], [0, 1])


def test_nobody_is_missing_where_nothing_is_open():
    assert [] == missing([dump(0, 7, 7, 7), dump(1, 6, 6, 6)], [0, 1])


def test_the_rank_that_did_not_enqueue_is_missing():
    (one,) = missing([dump(0, 7, 7, 6), dump(1, 6, 6, 6), dump(2, 7, 7, 6)], [0, 1, 2])

    assert ("world", 7, "all_reduce", (1,), ()) == (
        one.group, one.sequence, one.op, one.ranks, one.silent,
    )  # fmt: skip
    assert one.held_up


def test_each_rank_is_missing_from_the_first_that_it_did_not_enqueue():
    found = missing([dump(0, 9, 6, 6), dump(1, 6, 6, 6), dump(2, 7, 6, 6)])

    assert [(7, (1,)), (8, (2,))] == [(one.sequence, one.ranks) for one in found]


def test_a_collective_that_one_rank_completed_was_joined_by_all():
    assert [] == missing([dump(0, 7, 7, 6), dump(1, 7, 7, 7), dump(2, 6, 6, 6)], [0, 1, 2])


def test_a_rank_of_this_node_without_a_dump_is_missing_from_the_oldest_open_one():
    (one,) = missing([dump(0, 7, 7, 6, ranks="[]")], [0, 1])

    assert (7, (), (1,)) == (one.sequence, one.ranks, one.silent)


def test_a_dump_from_before_the_wait_says_nothing_about_it():
    (one,) = missing([dump(0, 57, 57, 56), dump(1, 53, 53, 53, at=WROTE - 60)], [0, 1])

    assert (57, (), (1,)) == (one.sequence, one.ranks, one.silent)


def test_a_rank_that_is_no_member_is_not_missing():
    found = missing([dump(0, 7, 7, 6), dump(1, 7, 7, 6)], [0, 1, 2])

    assert [] == found


@pytest.fixture
def recorder(machine, tmp_path):
    machine.clock.unix = WROTE + 2.0
    living = [RankProcess("gpt-1", 0, 7), RankProcess("gpt-1", 1, 8)]
    (tmp_path / "dumps").mkdir()
    prefix = str(tmp_path / "dumps" / "trace_")
    one = FlightRecorder(prefix, machine.rings, machine.proc, machine.clock, lambda: living)
    one.prefix, one.living, one.machine = prefix, living, machine
    return one


def write(path, data, at=WROTE):
    path = Path(path)
    path.write_bytes(data if isinstance(data, bytes) else pickle.dumps(data, 2))
    os.utime(path, (at, at))
    return path


def read(recorder):
    recorder.machine.clock.now += 10
    assert recorder.available()
    reading = recorder.read()
    return {(s.metric.name, s.labels): s.value for s in collect_dumps(reading)}, reading


def test_where_no_dump_is_the_source_is_absent_and_says_why(recorder):
    assert not recorder.available()
    assert recorder.prefix in recorder.why_not()


def test_dumps_at_the_prefix_are_shown_with_who_is_missing(recorder):
    recorder.machine.file(
        recorder.machine.proc / "7/environ", f"TORCH_FR_DUMP_TEMP_FILE={recorder.prefix}\0"
    )
    write(f"{recorder.prefix}0", tree([entry(7)], (7, 6, 6)))
    write(f"{recorder.prefix}1", tree([], (6, 6, 6)))
    values, reading = read(recorder)
    mine = ("gpt-1", "world", "0")

    assert 7 == values[m.NCCL_FR_ENQUEUED.name, mine]
    assert 6 == values[m.NCCL_FR_STARTED.name, mine]
    assert 6 == values[m.NCCL_FR_COMPLETED.name, mine]
    assert 4.0 == round(values[m.NCCL_FR_STUCK.name, (*mine, "all_reduce")], 3)
    assert 7 == values[m.NCCL_FR_MISSING.name, ("gpt-1", "world", "1")]
    assert 2.0 == values[m.NCCL_FR_DUMP_AGE.name, ("gpt-1", "0")]
    assert () == reading.rejected


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ("TORCH_FR_DUMP_TEMP_FILE={}/here_\0HOME=/root\0", "here_"),
        ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE={}/here_\0", "here_"),
        ("HOME={}\0", ".cache/torch/comm_lib_trace_rank_"),
        ("HOME=/root\0XDG_CACHE_HOME={}\0", "torch/comm_lib_trace_rank_"),
    ],
)
def test_dumps_where_a_rank_puts_them_outlive_the_rank(recorder, tmp_path, variables, place):
    prefix = f"{tmp_path}/home/{place}"
    Path(prefix).parent.mkdir(parents=True)
    recorder.machine.file(recorder.machine.proc / "7/environ", variables.format(f"{tmp_path}/home"))
    write(f"{prefix}0", tree([], (6, 6, 6)))
    read(recorder)
    recorder.living.clear()
    values, _ = read(recorder)

    assert 6 == values[m.NCCL_FR_ENQUEUED.name, ("gpt-1", "world", "0")]


def test_dumps_beside_the_rings_name_their_run(recorder):
    write(recorder.machine.rings / dump_name("gpt-1", 1), tree([], (6, 6, 6)))
    values, _ = read(recorder)

    assert 6 == values[m.NCCL_FR_ENQUEUED.name, ("gpt-1", "world", "1")]


def test_a_dump_whose_name_is_no_text_is_none(recorder):
    """Its run would be a label that cannot be written to a page."""
    name = os.fsencode(recorder.machine.rings) + b"/flight-recorder-\xff\xfe-1"
    with open(name, "wb") as file:
        file.write(pickle.dumps(tree([], (6, 6, 6)), 2))
    os.utime(name, (WROTE, WROTE))

    assert not recorder.available()


def test_a_dump_that_is_being_written_is_no_error_and_accuses_nobody(recorder):
    whole = pickle.dumps(tree([], (6, 6, 6)), 2)
    recorder.machine.clock.unix = WROTE + 7.0
    write(recorder.machine.rings / dump_name("gpt-1", 0), tree([entry(7)], (7, 6, 6)))
    path = write(recorder.machine.rings / dump_name("gpt-1", 1), whole[:50], WROTE + 7.0)
    values, reading = read(recorder)

    assert () == reading.rejected
    assert m.NCCL_FR_MISSING.name not in {name for name, _ in values}
    write(path, whole, WROTE + 8.0)
    values, reading = read(recorder)
    assert () == reading.rejected
    assert 6 == values[m.NCCL_FR_ENQUEUED.name, ("gpt-1", "world", "1")]


def test_a_dump_that_stays_half_written_is_counted_once(recorder):
    write(f"{recorder.prefix}0", pickle.dumps(tree(), 2)[:50])

    assert not recorder.available()
    recorder.machine.clock.unix += 20
    assert ["content"] == [each.reason for each in read(recorder)[1].rejected]
    recorder.machine.clock.now += 10
    assert not recorder.available()


def test_a_rank_is_silent_only_once_the_others_have_waited_for_its_dump(recorder):
    write(recorder.machine.rings / dump_name("gpt-1", 0), tree([entry(7)], (7, 6, 6)))
    early, _ = read(recorder)
    recorder.machine.clock.unix += 10
    late, _ = read(recorder)

    assert m.NCCL_FR_MISSING.name not in {name for name, _ in early}
    assert 7 == late[m.NCCL_FR_MISSING.name, ("gpt-1", "world", "1")]


def test_a_dump_that_waits_for_its_turn_accuses_nobody(recorder, monkeypatch):
    monkeypatch.setattr("lockstep.collector.sources.nccl.flight_recorder.source.BYTES_A_READING", 1)
    recorder.machine.clock.unix += 10
    write(recorder.machine.rings / dump_name("gpt-1", 0), tree([entry(7)], (7, 6, 6)))
    write(recorder.machine.rings / dump_name("gpt-1", 1), tree([entry(7)], (7, 6, 6)))
    values, _ = read(recorder)

    assert {"0"} == {labels[-1] for name, labels in values if name == m.NCCL_FR_ENQUEUED.name}
    assert m.NCCL_FR_MISSING.name not in {name for name, _ in values}


def test_dumps_of_other_nodes_ranks_in_a_shared_home_are_not_ours(recorder, tmp_path):
    (tmp_path / "home").mkdir()
    variable = f"TORCH_FR_DUMP_TEMP_FILE={tmp_path}/home/here_\0"
    recorder.machine.file(recorder.machine.proc / "7/environ", variable)
    for rank in (0, 1, 977):
        write(tmp_path / f"home/here_{rank}", tree([], (6, 6, 6)))
    _, reading = read(recorder)

    assert [("gpt-1", 0), ("gpt-1", 1)] == [(each.run, each.rank) for each in reading.dumps]


def test_a_dump_from_before_a_run_is_not_that_runs(recorder):
    variable = f"TORCH_FR_DUMP_TEMP_FILE={recorder.prefix}\0"
    recorder.machine.file(recorder.machine.proc / "7/environ", variable)
    write(f"{recorder.prefix}0", tree([entry(7)], (7, 6, 6)))
    _, first = read(recorder)
    recorder.machine.file(recorder.machine.proc / "9/environ", variable)
    recorder.living[:] = [RankProcess("gpt-2", 0, 9)]
    recorder.machine.clock.unix += 60
    _, second = read(recorder)

    assert [["gpt-1"], [""]] == [[each.run for each in one.dumps] for one in (first, second)]


def test_the_environment_is_that_of_the_process_in_our_table(recorder):
    """In a container a rank knows itself by another number, which is another process here."""
    machine = recorder.machine
    processes = [RankProcess("gpt-1", 0, 4007)]
    machine.file(machine.proc / "4007/environ", f"TORCH_FR_DUMP_TEMP_FILE={recorder.prefix}\0")
    one = FlightRecorder(
        None, machine.rings, machine.proc, machine.clock, lambda: recorder.living,
        lambda: processes,
    )  # fmt: skip
    write(f"{recorder.prefix}0", tree([], (6, 6, 6)))

    assert one.available()
    assert ["gpt-1"] == [each.run for each in one.read().dumps]


def test_dumps_of_many_groups_take_a_quarter_of_a_page(recorder):
    names = [str(n) for n in range(60)]
    for rank in range(20):
        value = tree([entry(2, pg_id=n, process_group=(str(n), f"g{n}")) for n in range(60)])
        value["pg_status"] = {key: {"last_enqueued_collective": 2} for key in names}
        write(f"{recorder.prefix}{rank}", value)
    values, _ = read(recorder)

    assert len(values) < 800


def test_the_newest_dump_of_a_rank_stands(recorder):
    write(recorder.machine.rings / dump_name("gpt-1", 1), tree([], (6, 6, 6)), WROTE - 60)
    (recorder.machine.rings / "pod").mkdir()
    write(recorder.machine.rings / "pod" / dump_name("gpt-1", 1), tree([], (9, 9, 9)))
    values, _ = read(recorder)

    assert 9 == values[m.NCCL_FR_ENQUEUED.name, ("gpt-1", "world", "1")]


def test_a_dump_of_ten_minutes_ago_is_gone(recorder):
    write(f"{recorder.prefix}0", tree([], (6, 6, 6)), WROTE - 700)

    assert not recorder.available()


def test_a_dump_is_parsed_once_for_each_time_it_is_written(recorder, monkeypatch):
    path = write(f"{recorder.prefix}0", b"\x80\x02garbage", WROTE - 60)
    _, first = read(recorder)

    assert ["content"] == [each.reason for each in first.rejected]
    assert () == recorder.read().rejected  # told once
    write(path, tree([], (6, 6, 6)), WROTE + 1)
    values, second = read(recorder)

    assert () == second.rejected
    assert 6 == values[m.NCCL_FR_ENQUEUED.name, ("", "world", "0")]


def test_a_trap_a_link_a_pipe_and_a_giant_are_counted_and_the_rest_stands(recorder, tmp_path):
    target = tmp_path / "ran"
    write(f"{recorder.prefix}0", pickle.dumps(Trap(target), 2))
    write(tmp_path / "real", tree([], (6, 6, 6)))
    Path(f"{recorder.prefix}1").symlink_to(tmp_path / "real")
    os.utime(f"{recorder.prefix}1", (WROTE, WROTE), follow_symlinks=False)
    os.mkfifo(f"{recorder.prefix}2")
    os.utime(f"{recorder.prefix}2", (WROTE, WROTE))
    with write(f"{recorder.prefix}3", b"").open("wb") as giant:
        giant.truncate(17 << 20)
    os.utime(f"{recorder.prefix}3", (WROTE, WROTE))
    write(f"{recorder.prefix}4", tree([], (6, 6, 6)))
    reasons: set[str] = set()
    for _ in range(3):  # the giant waits for its turn
        values, reading = read(recorder)
        reasons |= {each.reason for each in reading.rejected}

    assert {"unsafe", "symlink", "not_regular", "too_large"} == reasons
    assert 6 == values[m.NCCL_FR_ENQUEUED.name, ("", "world", "4")]
    assert not target.exists()


def test_a_folder_of_a_hundred_thousand_files_is_one_line(recorder, monkeypatch):
    monkeypatch.setattr("lockstep.collector.sources.nccl.flight_recorder.dump_files.MAX_ENTRIES", 3)
    for rank in range(9):
        write(f"{recorder.prefix}{rank}", tree([], (6, 6, 6)))
    _, reading = read(recorder)

    assert ["too_many"] == [each.reason for each in reading.rejected]
    assert 3 == len(reading.dumps)


def test_more_places_than_are_looked_at_are_counted(recorder, monkeypatch):
    monkeypatch.setattr("lockstep.collector.sources.nccl.flight_recorder.source.MAX_PREFIXES", 2)
    for pid in (7, 8):
        variable = f"TORCH_FR_DUMP_TEMP_FILE={recorder.prefix}{pid}_\0"
        recorder.machine.file(recorder.machine.proc / f"{pid}/environ", variable)
    _, reading = read(recorder)

    assert ["too_many"] == [each.reason for each in reading.rejected]


def test_dumps_that_come_at_once_are_read_one_after_the_other(recorder, monkeypatch):
    monkeypatch.setattr("lockstep.collector.sources.nccl.flight_recorder.source.BYTES_A_READING", 1)
    for rank in range(3):
        write(f"{recorder.prefix}{rank}", tree([], (6, 6, 6)))
    counts = []
    for _ in range(3):
        recorder.available()  # the clock stands: it does not wait for the next look
        counts.append(len(recorder.read().dumps))

    assert [1, 2, 3] == counts


def test_a_dump_that_the_machine_was_too_busy_to_read_is_read_later(recorder, monkeypatch):
    write(f"{recorder.prefix}0", tree([], (6, 6, 6)), WROTE - 60)
    with monkeypatch.context() as busy:
        busy.setattr("sys.executable", "/absent")
        _, first = read(recorder)
    values, second = read(recorder)

    assert ["no_process"] == [each.reason for each in first.rejected]
    assert () == second.rejected
    assert 6 == values[m.NCCL_FR_ENQUEUED.name, ("", "world", "0")]


def test_small_dumps_of_many_ranks_are_read_in_turns(recorder, monkeypatch):
    monkeypatch.setattr(
        "lockstep.collector.sources.nccl.flight_recorder.source.BYTES_A_READING", 1 << 20
    )
    for rank in range(6):
        write(f"{recorder.prefix}{rank}", tree([], (6, 6, 6)))
    counts = []
    for _ in range(2):
        recorder.available()
        counts.append(len(recorder.read().dumps))

    assert [4, 6] == counts


def test_a_folder_without_rights_is_one_line(recorder, monkeypatch):
    def refused(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(
        "lockstep.collector.sources.nccl.flight_recorder.dump_files.os.scandir", refused
    )
    _, reading = read(recorder)

    assert {"permission"} == {each.reason for each in reading.rejected}


def test_a_pipe_is_written_to_and_nothing_else_is(tmp_path):
    prefix = str(tmp_path / "ask_")
    os.mkfifo(f"{prefix}0.pipe")
    reader = os.open(f"{prefix}0.pipe", os.O_RDONLY | os.O_NONBLOCK)

    assert Path(f"{prefix}0.pipe") == request_dump(prefix, 0)
    assert b"1\n" == os.read(reader, 100)
    os.close(reader)
    Path(f"{prefix}1.pipe").write_text("")
    Path(f"{prefix}2.pipe").symlink_to(f"{prefix}0.pipe")
    reasons = []
    for rank in (0, 1, 2, 3):
        with pytest.raises(SourceError) as error:
            request_dump(prefix, rank)
        reasons.append(error.value.reason)
    assert ["refused", "not_pipe", "not_pipe", "missing"] == reasons
    assert "" == Path(f"{prefix}1.pipe").read_text()


def test_a_pipe_that_nobody_empties_is_not_waited_for(tmp_path):
    prefix = str(tmp_path / "ask_")
    os.mkfifo(f"{prefix}0.pipe")
    reader = os.open(f"{prefix}0.pipe", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(f"{prefix}0.pipe", os.O_WRONLY | os.O_NONBLOCK)
    while True:
        try:
            os.write(writer, b"x" * 4096)
        except BlockingIOError:
            break
    with pytest.raises(SourceError) as error:
        request_dump(prefix, 0)
    os.close(reader)
    os.close(writer)

    assert "full" == error.value.reason


@pytest.mark.parametrize("name", ["flight-recorder-7", "dump-x", "flight-recorder-a-b", ""])
def test_other_files_beside_a_ring_are_no_dumps(name):
    assert of_dump(name) is None
    assert ("a-b", 7) == of_dump(dump_name("a-b", 7))


def test_a_silent_rank_of_a_mesh_group_is_missing_where_the_places_tell_its_members():
    """Gloo tells no members: rank 1 shares the dp group with rank 0, ranks 2 and 3 do not."""
    told = replace(dump(0, 7, 7, 6), groups=())
    state = replace(dump(0, 7, 7, 6).groups[0], name="3", group="mesh_dp", members=())
    places = {0: (0, 0, 0), 1: (1, 0, 0), 2: (0, 1, 0), 3: (1, 1, 0)}
    (one,) = missing([replace(told, groups=(state,))], places, places)

    assert ("mesh_dp", (), (1,)) == (one.group, one.ranks, one.silent)
