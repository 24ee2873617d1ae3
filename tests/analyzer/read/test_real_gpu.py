"""What one real NVIDIA H200 told: four ranks that share it over NCCL 2.28.9, as four nodes.

Captured with `python -m tests.benchmarks shared_gpu` (slow rank), with a DDP program of which NCCL
Inspector alone tells (late rank), and with one in which a rank sleeps for ever (stopped rank).
"""

import re
from pathlib import Path
from typing import Any

import pytest

from lockstep.analyzer.hangs.verdict import Status, judge
from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.read.collectives.load import load_collectives
from lockstep.analyzer.shapes.run import Verdict
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.runs.hang_dumps import read_folder
from tests.unpacking import unpacked

FIXTURES = Path(__file__).parents[2] / "fixtures"
CULPRIT = 2
PRIVATE = r'(?:serial|boot_id|machine_id)="[^"]*"|GPU-[0-9a-f]{8}-'


def only(verdict: Verdict) -> Any:
    [culprit] = verdict.culprits
    return culprit


def test_a_rank_whose_gpu_has_more_to_do_is_named_with_its_gpu(tmp_path: Path) -> None:
    packed = FIXTURES / "archives" / "h200-rank-2-slow.tar.xz"
    found = only(diagnose(load_archive(unpacked(packed, tmp_path))).verdict)

    assert (CULPRIT, "node-2", 0, "GPU-0") == (found.rank, found.node, found.gpu, found.uuid)
    assert "slow-gpu" == found.cause
    assert found.slowdown == pytest.approx(3.07, abs=0.02)
    assert 130 <= found.from_step <= 136  # a third of 400 steps


def test_nothing_that_names_a_machine_is_in_what_was_recorded(tmp_path: Path) -> None:
    run = load_archive(unpacked(FIXTURES / "archives" / "h200-rank-2-slow.tar.xz", tmp_path))
    labels = run.samples["labels"].dropna().unique()

    found = {text for label in labels for text in re.findall(PRIVATE, label)}
    assert found == {'serial=""', 'boot_id=""'}
    assert {"GPU-0"} == {each.uuid for each in run.ranks}


def test_inspector_alone_names_the_rank_that_comes_late(tmp_path: Path) -> None:
    packed = FIXTURES / "nccl" / "inspector-2.28.9-rank-2-late.tar.xz"
    found = only(diagnose(load_collectives(unpacked(packed, tmp_path))).verdict)

    assert CULPRIT == found.rank
    assert 99 <= found.from_step <= 103  # it slept from step 101 on
    assert found.slowdown == pytest.approx(1.38, abs=0.05)
    assert "unknown" == found.cause


def test_the_dumps_of_nccl_name_the_rank_that_others_wait_for() -> None:
    [(_, read)] = read_folder(FIXTURES / "nccl" / "flight-recorder-2.28.9-rank-2-stopped")
    found = judge(read)

    assert Status.HANG == found.status
    assert [CULPRIT] == [origin.rank for origin in found.origins]
