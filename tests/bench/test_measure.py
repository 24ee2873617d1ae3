"""From an archive to a row: medians by blocks, shares, who failed; what is not told is null."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lockstep.bench.measure import block_error, failed_ranks, metrics, speed
from lockstep.bench.spec import BenchError


def windows(ranks: int, steps: int = 40, own: float = 0.08, **more: Any) -> pd.DataFrame:
    step, rank = np.divmod(np.arange(steps * ranks), ranks)
    return pd.DataFrame({
        "from_step": step, "rank": rank, "steps": 1, "start": step * 0.1, "end": step * 0.1 + 0.1,
        "wall_seconds": 0.1, "own_seconds": own, "tags": "", "samples": 4, "loss": 2.0,
        "forward_seconds": 0.05, **more,
    })  # fmt: skip


NODES = {0: "a", 1: "b"}


def test_speed_is_of_all_ranks_and_shares_are_of_the_step() -> None:
    told = speed(windows(2), NODES)

    assert (0.1, 80.0) == (told["step_seconds"], pytest.approx(told["samples_per_second"]))
    assert (0.8, 0.2) == tuple(
        pytest.approx(told[f"{name}_share"]) for name in ("computation", "communication")
    )
    assert ["a", "b"] == told["rank_nodes"]
    assert told["gpu_hours"] == pytest.approx(4.0 * 2 / 3600)


def test_one_worker_communicates_with_nobody() -> None:
    told = speed(windows(1), {0: "a"})

    assert (1.0, 0.0) == (told["computation_share"], told["communication_share"])


def test_own_time_that_nobody_timed_is_null() -> None:
    told = speed(windows(2, own=math.nan), NODES)

    assert told["rank_own_seconds"] is None
    assert told["communication_share"] is None


def test_what_is_slow_by_design_and_the_warm_up_are_not_measured() -> None:
    frame = windows(2)
    frame.loc[frame["from_step"] < 3, "wall_seconds"] = 9.0
    frame.loc[frame["from_step"] == 20, ["wall_seconds", "tags"]] = [9.0, "checkpoint"]

    told = speed(frame, NODES)
    assert (0.1, 36) == (told["step_seconds"], told["steps"])
    assert {} == speed(frame.iloc[:0], NODES)


def test_the_error_of_a_median_shrinks_with_steps_and_is_unknown_of_few() -> None:
    dice = np.random.default_rng(0)
    short, long = (block_error(dice.normal(1, 0.02, count)) for count in (100, 10_000))

    assert 0.0005 < short < 0.006
    assert long < short / 3
    assert math.isnan(block_error([1.0] * 5))


def test_who_failed_is_told_with_node_and_last_lines(tmp_path: Path) -> None:
    meta = {"outcome": {"ranks": [3]}, "layout": {"ranks_per_node": 2}, "spec": {"hosts": []}}
    (tmp_path / "run.json").write_text(json.dumps(meta))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-3.log").write_text("begin\nout of memory\n")

    assert (["rank 3 on node-1"], "begin\nout of memory") == failed_ranks(tmp_path)
    assert ([], "") == failed_ranks(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["[1]", '{"a": "fast"}', '{"a": true}', "{", '{"": 1}'])
def test_metrics_that_are_no_numbers_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=r"m\.json"):
        metrics(path)
