"""What `--record` writes: golden lines, both readers of them, and a real run by each source."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from lockstep.collector.formats.nccl_inspector import batches
from lockstep.workloads.measure.formats import Streams
from lockstep.workloads.measure.inspector import InspectorLines
from lockstep.workloads.measure.timed_flight_recorder import _Arrived, transfers, with_durations

MS = 1_000_000


class Group(SimpleNamespace):
    """A process group, as far as a writer asks it."""

    def rank(self) -> int:
        return int(self.place)

    def size(self) -> int:
        return int(self.ranks)


def group(name: str = "0", desc: str = "default_pg", place: int = 1, ranks: int = 4) -> Any:
    return Group(group_name=name, group_desc=desc, place=place, ranks=ranks)


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda _: [0, 1, 2, 3])
    writer = InspectorLines(tmp_path / "inspector", "node-0", "run")

    def told(*operations: tuple[str, Any, int, int | None, int, int]) -> list[dict[str, Any]]:
        for op, where, size, peer, begin, end in operations:
            writer.complete(writer.arrive(op, where, size, peer), begin, end)
        writer.close()
        (path,) = (tmp_path / "inspector").iterdir()
        assert path.name == f"node-0-pid{os.getpid()}.log"
        return [json.loads(one) for one in path.read_text().splitlines()]

    return told


def test_a_line_is_inspectors_to_the_letter(lines: Any):
    (one,) = lines(("dp-all-reduce", group(), 1 << 20, None, 10 * MS, 12 * MS))
    stamp = one["metadata"].pop("dump_timestamp_us")

    assert stamp > 1_700_000_000_000_000
    assert one == {
        "header": {"id": one["header"]["id"], "comm_name": "default_pg", "rank": 1, "n_ranks": 4,
                   "nnodes": 1},
        "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "",
                     "rec_mechanism": "nccl_profiler_interface", "hostname": "node-0",
                     "pid": os.getpid()},
        "coll_perf": {"coll": "AllReduce", "coll_sn": 0, "coll_msg_size_bytes": 1 << 20,
                      "coll_exec_time_us": 2000, "coll_timing_source": "kernel_cpu",
                      "coll_algobw_gbs": 0.524288, "coll_busbw_gbs": 0.786432},
    }  # fmt: skip
    assert [*one] == ["header", "metadata", "coll_perf"]


def test_the_collectors_reader_takes_every_kind_of_line_and_agrees(tmp_path: Path, lines: Any):
    lines(
        ("dp-all-reduce", group(), 4096, None, 0, MS),
        ("params-all-gather", group(), 4096, None, MS, 2 * MS),
        ("grads-reduce-scatter", group(), 4096, None, 2 * MS, 3 * MS),
        ("world-broadcast", group(), 4096, None, 3 * MS, 4 * MS),
        ("forward-send", group("1", "mesh_pp"), 4096, 2, 0, MS),
        ("forward-recv", group("1", "mesh_pp"), 4096, 0, MS, 3 * MS),
    )
    (path,) = (tmp_path / "inspector").iterdir()
    found, bad = batches(path.read_bytes().splitlines())

    assert not bad
    assert [one.operation.op for one in found] == [
        "all_reduce", "all_gather", "reduce_scatter", "broadcast", "send", "recv"
    ]  # fmt: skip
    assert not any(one.disagreeing for one in found)


def test_numbers_are_nccls_by_function_from_0_and_of_transfers_inspectors_from_1(lines: Any):
    pipe = group("1", "mesh_pp")
    told = lines(
        ("dp-all-reduce", group(), 64, None, 0, MS),
        ("params-all-gather", group(), 64, None, 0, MS),
        ("dp-all-reduce", group(), 64, None, 0, MS),
        ("forward-recv", pipe, 64, 0, 0, MS),
        ("forward-send", pipe, 64, 2, 0, MS),
    )
    numbers = [one.get("coll_perf", one.get("p2p_perf")) for one in told]

    assert [one.get("coll_sn", one.get("p2p_sn")) for one in numbers] == [0, 0, 1, 1, 2]
    assert [one.get("p2p_peer") for one in numbers[3:]] == [0, 2]


def test_local_work_and_lone_ranks_leave_no_line(lines: Any):
    assert lines(
        ("data-load", group(), 64, None, 0, MS),
        ("dp-all-reduce", group(ranks=1), 64, None, 0, MS),
    ) == []  # fmt: skip


def test_collectives_of_one_communicator_are_timed_one_after_the_other():
    streams = Streams()

    assert streams.seconds("a", 0, 10 * MS) == 0.010
    assert streams.seconds("a", 2 * MS, 12 * MS) == 0.002
    assert streams.seconds("b", 2 * MS, 12 * MS) == 0.010
    assert streams.seconds("a", 3 * MS, 11 * MS) == 0.0


def entry(record: int, created: int, op_id: int, name: str = "0") -> dict[str, Any]:
    return {"record_id": record, "process_group": [name, "dp"], "time_created_ns": created,
            "op_id": op_id, "pg_id": 7}  # fmt: skip


def timed(since: int, seconds: float | None = 0.5, peer: int | None = None) -> _Arrived:
    return _Arrived(group(), since, "forward-send" if peer else "dp-all-reduce", 64, peer, seconds)


def test_an_entry_has_the_duration_of_the_call_that_made_it():
    tree = {"entries": [entry(0, 90, 1), entry(1, 110, 2), entry(2, 210, 3), entry(3, 310, 4)]}
    found = with_durations(tree, [timed(100, 0.1), timed(200, 0.2), timed(300, None)])

    assert [one.get("duration_ms") for one in found["entries"]] == [None, 100.0, 200.0, None]


def test_entries_that_were_overwritten_shift_nothing():
    found = with_durations({"entries": [entry(5, 210, 6)]}, [timed(100, 0.1), timed(200, 0.2)])

    assert found["entries"][0]["duration_ms"] == 200.0


def test_transfers_take_the_numbers_that_gloo_left_out():
    made = transfers([entry(0, 90, 2)], [timed(100, peer=3), timed(110), timed(120, peer=3)])

    assert [one["op_id"] for one in made] == [1, 3]
    assert [one["p2p_seq_id"] for one in made] == [1, 2]
    assert {one["profiling_name"] for one in made} == {"gloo:send 1->3"}
    assert all(one["is_p2p"] and one["pg_id"] == 7 for one in made)
