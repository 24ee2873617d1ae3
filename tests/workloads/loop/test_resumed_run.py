"""Whole ranks, from the launcher's job to the ring: what resumed runs and checkpoints record."""

from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import PHASES, STEP_TAGS, Phase
from lockstep.workloads.data.prepare import prepared
from lockstep.workloads.loop.resume import about, latest
from lockstep.workloads.loop.train import RankJob, run_rank
from lockstep.workloads.spec import Layout, RunSpec, Training

pytestmark = pytest.mark.distributed

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
STEPS = 14


def spec(layout: Layout, **more: Any) -> RunSpec:
    training = Training(vocabulary=32, sequence=16, micro_batches=4 // layout.dp, **more)
    return RunSpec("run", "gpt", layout, STEPS, 3, training, pace=False)


def ran(forked: Forked, folder: Path, one: RunSpec) -> list[Any]:
    """(exit code, step records) of each rank."""
    folder.mkdir()
    dataset = prepared(one, folder)

    def work(rank: int) -> Any:
        job = RankJob(
            one, rank, folder, f"file://{folder}/rendezvous", dataset, folder / "checkpoints", 2, 0,
            folder / "tensorboard", 1e9,
        )  # fmt: skip
        with (folder / f"rank-{rank}.log").open("w") as log, redirect_stderr(log):
            code = run_rank(job)
        raw = (folder / ring.file_name(rank)).read_bytes()
        written = ring.LIVE.unpack_from(raw, ring.LIVE_OFFSET)[1]
        size = ring.STEP_RECORD.size
        slots = ring.STEP_RECORD.iter_unpack(raw[ring.STEPS_OFFSET :][: written * size])
        return code, [asdict(ring.step_record(slot)) for slot in slots]

    return forked(one.layout.world, work)


def test_a_resumed_run_goes_on_with_steps_and_loss_where_the_other_was(
    forked: Forked, tmp_path: Path
) -> None:
    first = ran(forked, tmp_path / "a", spec(Layout(1, 2, 2), checkpoint_every=5))
    folder = latest(tmp_path / "a" / "checkpoints")
    second = ran(forked, tmp_path / "b", spec(Layout(1, 2, 1, 1, 2), resume=str(folder)))

    assert 10 == about(folder).step == about(folder).updates
    assert {0} == {code for code, _ in (*first, *second)}
    assert list(range(STEPS)) == [one["step"] for one in first[0][1]]
    assert list(range(10, STEPS)) == [one["step"] for one in second[0][1]]
    # Loss: the mean of both replicas before, of the whole batch on the last stage after.
    losses = [
        (one["loss"] + other["loss"]) / 2
        for one, other in zip(first[0][1], first[1][1], strict=True)
    ]
    assert losses[10:] == pytest.approx([one["loss"] for one in second[1][1]], rel=1e-5)


def test_a_checkpoint_is_a_phase_and_a_tag_of_its_step_on_every_rank(
    forked: Forked, tmp_path: Path
) -> None:
    ranks = ran(forked, tmp_path / "a", spec(Layout(1, 2, 2), checkpoint_every=5))
    phase, tag = PHASES.index(Phase.CHECKPOINT), 1 << STEP_TAGS.index("checkpoint")

    for _, steps in ranks:
        assert [4, 9] == [one["step"] for one in steps if one["tags"] & tag]
        assert [4, 9] == [one["step"] for one in steps if one["phase_ns"][phase] > 0]
    assert 1 == len(list((tmp_path / "a" / "tensorboard").iterdir()))


def test_a_checkpoint_that_breaks_while_it_is_read_ends_the_rank_with_a_sentence(
    forked: Forked, tmp_path: Path
) -> None:
    one = Layout(1, 1, 1)
    ran(forked, tmp_path / "a", spec(one, checkpoint_every=5))
    folder = latest(tmp_path / "a" / "checkpoints")
    part = folder / "__0_0.distcp"
    part.write_bytes(bytes(part.stat().st_size))
    ((code, steps),) = ran(forked, tmp_path / "b", spec(one, resume=str(folder)))

    assert (1, []) == (code, steps)
    last = (tmp_path / "b" / "rank-0.log").read_text().strip().splitlines()[-1]
    assert f"rank 0: checkpoint {folder} cannot be read: rank 0: its contents are damaged" == last
