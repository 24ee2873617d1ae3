"""Flight-recorder dumps with durations: constructed as torch writes them, and hostile ones."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lockstep.analyzer.read.collectives.load import load_collectives
from lockstep.analyzer.shapes.run import LoadError
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.formats.flight_recorder.pickled import as_json

USUAL, LATE, TRANSFER = 0.100, 0.150, 0.0005
EPOCH_NS = 1_795_472_430_000_000_000


def entry(number: int, created: float, seconds: float | None, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "record_id": number, "pg_id": 0, "process_group": ["0", "default_pg"],
        "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number,
        "profiling_name": "nccl:all_reduce", "time_created_ns": EPOCH_NS + round(created * 1e9),
        "input_sizes": [[1000, 8]], "input_dtypes": ["BFloat16"], "output_sizes": [[1000, 8]],
        "output_dtypes": ["BFloat16"], "state": "completed", "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": True, "timeout_ms": 600000,
        "is_p2p": False,
    }  # fmt: skip
    if seconds is not None:
        told["duration_ms"] = seconds * 1e3
    return told | more


def dumps(*, steps: int = 120, slow: int | None = 2, since: int = 60) -> dict[int, dict[str, Any]]:
    dice = np.random.default_rng(0)
    entries: dict[int, list[dict[str, Any]]] = {rank: [] for rank in range(4)}
    now = 0.0
    for step in range(1, steps + 1):
        own = np.full(4, USUAL) * (1 + 0.01 * dice.standard_normal(4))
        if slow is not None and step > since:
            own[slow] *= LATE / USUAL
        for rank in range(4):
            seconds = float(own.max() - own[rank]) + TRANSFER
            entries[rank].append(entry(step, now + own[rank] + 5.0 * rank, seconds))
        now += own.max() + TRANSFER
    return {
        rank: {
            "version": "2.10", "comm_lib_version": "2.27.3",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
            "pg_status": {}, "entries": each,
        }
        for rank, each in entries.items()
    }  # fmt: skip


def written(folder: Path, trees: dict[int, dict[str, Any]]) -> Path:
    for rank, tree in trees.items():
        (folder / f"nccl_trace_rank_{rank}").write_text(json.dumps(tree))
    return folder


def culprits(folder: Path) -> list[int | None]:
    return [one.rank for one in diagnose(load_collectives(folder)).verdict.culprits]


def test_the_late_rank_is_named(tmp_path: Path):
    assert culprits(written(tmp_path, dumps())) == [2]


def test_a_healthy_job_has_no_culprit(tmp_path: Path):
    assert culprits(written(tmp_path, dumps(slow=None))) == []


def test_pickles_are_read_by_who_is_given_for_it_and_refused_without(tmp_path: Path):
    for rank, tree in dumps().items():
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(tree))

    run = load_collectives(tmp_path, as_json)
    assert [one.rank for one in diagnose(run).verdict.culprits] == [2]
    with pytest.raises(LoadError, match="it is a pickle"):
        load_collectives(tmp_path)


def test_a_rank_whose_dump_is_not_here_makes_own_times_unknown(tmp_path: Path):
    trees = dumps()
    del trees[3]
    run = load_collectives(written(tmp_path, trees))

    assert run.windows["own_seconds"].isna().all()
    assert diagnose(run).verdict.status == "unknown"


def test_numbers_that_were_not_recorded_make_own_times_unknown(tmp_path: Path):
    trees = dumps()
    for tree in trees.values():
        for one in tree["entries"]:
            one["op_id"] *= 2  # as gloo counts transfers, and does not record them
    run = load_collectives(written(tmp_path, trees))

    assert run.windows["own_seconds"].isna().all()


def test_dumps_without_durations_say_what_to_set(tmp_path: Path):
    trees = dumps()
    for tree in trees.values():
        for one in tree["entries"]:
            del one["duration_ms"]

    with pytest.raises(LoadError, match="TORCH_NCCL_ENABLE_TIMING=1"):
        load_collectives(written(tmp_path, trees))


def test_entries_that_do_not_hold_together_are_told_and_the_rest_is_read(tmp_path: Path):
    trees = dumps()
    trees[0]["entries"][:5] = [
        entry(1, 0.0, 0.1, process_group="0"), entry(2, 0.0, -1.0), entry(3, 0.0, 0.1, op_id="x"),
        entry(4, 0.0, 0.1, profiling_name="?"), entry(5, 0.0, 0.1, input_sizes=[[2**90] * 9] * 9),
    ]  # fmt: skip
    run = load_collectives(written(tmp_path, trees))

    assert any("4 entries of the flight recorder do not hold together" in w for w in run.missing)
    assert [one.rank for one in diagnose(run).verdict.culprits] == [2]


@pytest.mark.parametrize(
    "text", ['{"entries": 5}', '{"entries": []}', '{"version": [[[', '{"entries": [5, null, {}]}']
)
def test_dumps_of_something_else_are_refused_in_a_sentence(tmp_path: Path, text: str):
    (tmp_path / "nccl_trace_rank_0").write_text(text)

    with pytest.raises(LoadError, match="says how long a collective took"):
        load_collectives(tmp_path)
