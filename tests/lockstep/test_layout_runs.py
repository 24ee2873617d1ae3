"""Whole runs on layouts with stages and tensor parallel: their traces, verdicts, and bad ends."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest

from lockstep.workloads.data.indexed import write

pytestmark = [
    pytest.mark.distributed, pytest.mark.slow, pytest.mark.timed, pytest.mark.timeout(1800),
]  # fmt: skip

NODES = ("--nodes", "2", "--ranks-per-node", "2")
INTERLEAVED = (
    "--pp", "2", "--dp", "2", "--virtual-stages", "2", "--micro-batches", "4", "--model", "small",
)  # fmt: skip
TENSOR = ("--pp", "2", "--tp", "2", "--sequence-parallel", "--micro-batches", "2")
LAYERS_OF_A_STAGE = 1
PATIENCE_SECONDS = 600.0


def lockstep(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "lockstep", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS)


def finished(archive: Path, *arguments: str) -> Path:
    done = lockstep("run", "gpt", *NODES, *arguments, "--out", archive)
    assert done.returncode == 0, done.stderr
    return archive


@pytest.fixture(scope="module")
def interleaved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy run, two stages on each of two pipeline ranks, two replicas."""
    return finished(tmp_path_factory.mktemp("runs") / "interleaved", *INTERLEAVED, "--steps", "50")


@pytest.fixture(scope="module")
def judged(
    tmp_path_factory: pytest.TempPathFactory, decided: Callable[..., Any]
) -> tuple[Path, Mapping[str, Any]]:
    """(archive, verdict) of two stages of two tensor-parallel ranks; rank 3 becomes too hot."""
    fault = ("--fault", "thermal:rank=3,factor=2", "--steps", "80")
    archives: list[Path] = []

    def record(_: int) -> list[str]:
        archives.append(finished(tmp_path_factory.mktemp("runs") / "tensor", *TENSOR, *fault))
        return [lockstep("analyze", archives[-1], "-o", "json").stdout]

    (verdict,) = decided(record)
    return archives[-1], verdict


@pytest.fixture(scope="module")
def tensor(judged: tuple[Path, Mapping[str, Any]]) -> Path:
    """The archive of `judged`."""
    return judged[0]


def ops_of(archive: Path) -> pd.DataFrame:
    return ds.dataset(archive / "ops.parquet").to_table().to_pandas()


def per_step(ops: pd.DataFrame, optype: str) -> dict[int, set[int]]:
    """Every number of such operations in a step that occurs, by rank."""
    steps = set(ops["step"])
    found = ops[ops["optype"] == optype].groupby(["rank", "step"]).size()
    return {
        int(rank): {int(found.get((rank, step), 0)) for step in steps}
        for rank in sorted(set(ops["rank"]))
    }


@pytest.mark.parametrize(("layout", "chunks", "micro_batches"),
                         [("interleaved", 2, 4), ("tensor", 1, 2)])  # fmt: skip
def test_every_micro_batch_passes_every_chunk_once_a_step(
    request: pytest.FixtureRequest, layout: str, chunks: int, micro_batches: int
) -> None:
    ops = ops_of(request.getfixturevalue(layout))
    wanted = sorted((c, m) for c in range(chunks) for m in range(micro_batches))

    for optype in ("forward-compute", "backward-compute"):
        for _, rows in ops[ops["optype"] == optype].groupby(["rank", "step"]):
            assert wanted == sorted(zip(rows["mc"], rows["mb_id"], strict=True))
            assert (rows["gmc"] == rows["mc"] * 2 + rows["stage"]).all()
            ordered = rows.sort_values("start_ns")["seq_id"]
            assert list(range(chunks * micro_batches)) == list(ordered)


@pytest.mark.parametrize(("layout", "last"), [("interleaved", 3), ("tensor", 1)])
def test_every_send_has_its_receive_in_the_neighbouring_chunk(
    request: pytest.FixtureRequest, layout: str, last: int
) -> None:
    ops = ops_of(request.getfixturevalue(layout))
    ops["micro"] = ops["tag"].str.partition(".")[2]
    keys = ["step", "dp_rank", "tp_rank", "gmc", "micro"]

    for direction, towards in (("forward", 1), ("backward", -1)):
        sends = ops[ops["optype"] == f"{direction}-send"].copy()
        sends["gmc"] += towards
        receives = ops[ops["optype"] == f"{direction}-recv"]
        pairs = sends.merge(receives, on=keys, suffixes=("_sent", ""), validate="1:1")

        assert len(sends) == len(receives) == len(pairs) > 0
        assert (pairs["bytes_sent"] == pairs["bytes"]).all()
        assert (pairs["end_ns"] >= pairs["start_ns_sent"]).all()
        assert {range(1, last + 1), range(last)} >= {range(pairs["gmc"].min(),
                                                          pairs["gmc"].max() + 1)}  # fmt: skip


def test_a_step_communicates_as_often_as_the_arithmetic_says(tensor: Path) -> None:
    """Per layer and micro-batch two gathers and two scatters each way, and those of the ends."""
    ops = ops_of(tensor)
    micro_batches = 2
    inner = micro_batches * 4 * LAYERS_OF_A_STAGE
    loss = 2 * micro_batches
    both_ends = {rank: {inner + micro_batches} for rank in range(4)}

    assert both_ends == per_step(ops, "tp-all-gather")
    assert both_ends == per_step(ops, "tp-reduce-scatter")
    assert {0: {0}, 1: {0}, 2: {loss}, 3: {loss}} == per_step(ops, "tp-all-reduce")
    once = {rank: {1} for rank in range(4)}
    assert once == per_step(ops, "layernorm-grads-all-reduce")
    assert once == per_step(ops, "embedding-grads-all-reduce")
    assert {rank: {2} for rank in range(4)} == per_step(ops, "optimizer-clip-main-grad")


def test_in_a_healthy_pipeline_nobody_is_named(interleaved: Path) -> None:
    """On a machine that does other work too, 50 steps may be too noisy to be called healthy."""
    done = lockstep("analyze", interleaved, "-o", "json")
    verdict: dict[str, Any] = json.loads(done.stdout)

    assert [] == verdict["culprits"]
    assert (verdict["status"], done.returncode) in {("healthy", 0), ("unknown", 3)}
    assert 0 == done.returncode or verdict["sentence"].startswith("Unknown: ")


def test_the_verdict_names_the_slow_rank_of_a_tensor_parallel_stage(
    judged: tuple[Path, Mapping[str, Any]],
) -> None:
    archive, verdict = judged
    fault = json.loads((archive / "truth.json").read_text())["faults"][0]

    assert "degraded" == verdict["status"], verdict["sentence"]
    assert [(3, "node-1", "thermal")] == [
        (one["rank"], one["node"], one["cause"]) for one in verdict["culprits"]
    ]
    assert 2.0 == pytest.approx(fault["factor_measured"], rel=0.15)


def test_a_rank_that_dies_at_start_is_the_first_cause_and_ends_every_rank(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    broken = textwrap.dedent("""
        import sys
        from lockstep.workloads.models import gpt_setup
        true = gpt_setup.set_up
        def fail(spec, rank, *more):
            if rank == 2:
                raise ImportError("no module named flash")
            return true(spec, rank, *more)
        gpt_setup.set_up = fail
        from lockstep.app import main
        sys.exit(main())
    """)
    run = ("run", "gpt", *NODES, *TENSOR, "--steps", "40", "--out", str(archive))
    done = subprocess.run(
        [sys.executable, "-c", broken, *run],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    told = json.loads((archive / "run.json").read_text())

    assert 70 == done.returncode
    assert "rank 2 on node-1 failed, and no fault asked for it: exited with code 1" in done.stderr
    assert told["outcome"]["reason"].endswith("ImportError: no module named flash")
    assert ("crash", [2]) == (told["outcome"]["ending"], told["outcome"]["ranks"])
    assert not Path("/dev/shm/lockstep", told["run"]).exists()
    assert 4 == ds.dataset(archive / "ranks.parquet").count_rows()
    assert 0 == ds.dataset(archive / "steps.parquet").count_rows()


def dataset(folder: Path, tokens: int = 4000, largest: int = 511) -> Path:
    prefix = folder / "corpus"
    dice = np.random.default_rng(1)
    write(prefix, [dice.integers(0, largest + 1, tokens)], largest + 1)
    return prefix


def test_a_dataset_that_cannot_be_used_is_refused_before_any_rank_starts(tmp_path: Path) -> None:
    corrupt, short, foreign = (tmp_path / name for name in ("corrupt", "short", "foreign"))
    for folder in (corrupt, short, foreign):
        folder.mkdir()
    index = dataset(corrupt).with_suffix(".idx")
    index.write_bytes(index.read_bytes()[:9] + b"\x07" + index.read_bytes()[10:])
    cases = {
        corrupt / "corpus": "corpus.idx: version is 7; this reads version 1",
        tmp_path / "missing": "missing.idx",
        dataset(short, tokens=20): "20 tokens are too few for a sample of 65",
        dataset(foreign, largest=600): "give --vocabulary 601 or more",
    }

    for prefix, named in cases.items():
        done = lockstep(
            "run", "gpt", "--model", "small", "--data", prefix, "--out", tmp_path / "archive"
        )
        assert (65, True) == (done.returncode, named in done.stderr), done.stderr
        assert 1 == len(done.stderr.strip().splitlines())
        assert not (tmp_path / "archive").exists()
