"""Loss curves: equal in every layout and after a resume in another one; and the model learns."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lockstep.workloads.data.prepare import CopySource, MarkovSource, prepared
from lockstep.workloads.loop.checkpoint import Checkpoints
from lockstep.workloads.models.gpt import Gpt
from lockstep.workloads.models.gpt_setup import ModelParts, set_up
from lockstep.workloads.models.optimizer import CLIP
from lockstep.workloads.parallel import mesh
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.spec import Layout, RunSpec, Training
from tests.workloads.ranks import recorder_of

pytestmark = pytest.mark.distributed

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
STEPS = 20
SMALL = Training(vocabulary=32, sequence=16)


def spec_of(pp: int, dp: int, tp: int, batch: int = 8, **more: Any) -> RunSpec:
    """A run whose batch has the same sequences in every layout."""
    micro = 1 if pp > 1 else batch // dp
    training = replace(
        SMALL, micro_batch=micro, micro_batches=batch // dp // micro,
        sequence_parallel=tp > 1, **more,
    )  # fmt: skip
    return RunSpec("run", "gpt", Layout(1, pp * dp * tp, dp, tp, pp), STEPS, 3, training)


def joined(spec: RunSpec, rank: int, folder: Path) -> tuple[mesh.Mesh, Comm]:
    layout, late = spec.layout, spec.training.resume is not None
    sharded = spec.training.sharded_optimizer
    where = f"rendezvous-{layout.pp}-{layout.dp}-{layout.tp}-{late}-{sharded}"
    recorder = recorder_of(rank, layout, folder, where)
    groups = mesh.build(spec.layout)
    return groups, Comm(recorder, groups.groups)


def step(parts: ModelParts, number: int) -> float:
    batch = torch.from_numpy(parts.batch(number))
    parts.gradients.zero()
    loss = parts.execution.step(batch[:, :-1], batch[:, 1:])
    parts.gradients.finish()
    parts.optimizer.step(number, parts.gradients.clip(CLIP))
    return math.nan if loss is None else float(loss)


def curve(
    forked: Forked, folder: Path, spec: RunSpec, first: int = 0, last: int = STEPS,
    save: bool = False,
) -> list[float]:  # fmt: skip
    """The loss of every step, averaged over the replicas."""
    dataset = prepared(spec, folder)

    def work(rank: int) -> list[float]:
        groups, comm = joined(spec, rank, folder)
        parts = set_up(spec, rank, groups, comm, dataset, lambda _name, _tag: nullcontext())
        checkpoints = Checkpoints(
            folder / "checkpoints", parts.chunks, parts.optimizer, groups.grid["tp"], comm,
            spec.batch,
        )  # fmt: skip
        if spec.training.resume is not None:
            assert first == checkpoints.load(Path(spec.training.resume))
        losses = [step(parts, number) for number in range(first, last)]
        if save:
            checkpoints.save(last)
        return losses

    answers = np.array(forked(spec.layout.world, work))
    return list(np.nanmean(answers, axis=0))


LAYOUTS = [(1, 2, 1), (1, 1, 2), (2, 1, 1), (2, 2, 2)]


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize("model", ["tiny", "tiny-llama"])
def test_the_loss_curve_is_the_same_in_every_layout(
    forked: Forked, tmp_path: Path, model: str
) -> None:
    wanted = curve(forked, tmp_path, spec_of(1, 1, 1, model=model))

    assert wanted[-1] < wanted[0] - 0.05
    for layout in LAYOUTS:
        found = curve(forked, tmp_path, spec_of(*layout, model=model))
        assert wanted == pytest.approx(found, rel=1e-5)


def test_an_evaluation_finds_the_same_in_every_layout_and_on_every_rank(
    forked: Forked, tmp_path: Path
) -> None:
    found = []
    for layout in [(1, 1, 1), *LAYOUTS]:
        spec = spec_of(*layout, eval_every=10)
        dataset = prepared(spec, tmp_path)

        def work(rank: int, spec: RunSpec = spec, dataset: Path = dataset) -> dict[str, float]:
            groups, comm = joined(spec, rank, tmp_path)
            parts = set_up(spec, rank, groups, comm, dataset, lambda _name, _tag: nullcontext())
            for number in range(3):
                step(parts, number)
            return dict(parts.evaluate())

        answers = forked(spec.layout.world, work)
        assert all(answers[0] == answer for answer in answers)
        found.append(answers[0])

    for one in found:
        assert found[0] == pytest.approx(one, rel=1e-5)
        assert one["perplexity"] == pytest.approx(math.exp(one["loss"]))


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize(
    ("saved", "resumed"),
    [((2, 1, 2), (1, 2, 1)), ((1, 1, 1), (2, 1, 2)), ((1, 2, 2), (1, 1, 2))],
)
def test_a_run_goes_on_in_another_layout_as_if_it_had_never_stopped(
    forked: Forked, tmp_path: Path, saved: tuple[int, int, int], resumed: tuple[int, int, int]
) -> None:
    half = STEPS // 2
    whole = curve(forked, tmp_path, spec_of(1, 1, 1))
    before = curve(forked, tmp_path, spec_of(*saved), last=half, save=True)
    folder = tmp_path / "checkpoints" / f"step-{half:08d}"
    after = curve(forked, tmp_path, spec_of(*resumed, resume=str(folder)), first=half)

    assert whole == pytest.approx(before + after, rel=1e-5)


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize("model", ["tiny", "tiny-llama"])
def test_the_sharded_optimizer_has_the_loss_curve_of_the_plain_one(
    forked: Forked, tmp_path: Path, model: str
) -> None:
    wanted = curve(forked, tmp_path, spec_of(1, 1, 1, model=model))

    for layout in [(1, 2, 1), (1, 4, 1), (2, 2, 1), (1, 2, 2)]:
        spec = spec_of(*layout, model=model, sharded_optimizer=True)
        assert wanted == pytest.approx(curve(forked, tmp_path, spec), rel=1e-5)


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize(
    ("saved", "resumed"), [((2, 2, 1), None), (None, (1, 2, 2)), ((1, 4, 1), (2, 2, 1))]
)
def test_a_run_goes_on_with_or_without_the_sharded_optimizer(
    forked: Forked, tmp_path: Path, saved: tuple[int, int, int] | None,
    resumed: tuple[int, int, int] | None,
) -> None:  # fmt: skip
    """None is one rank with the plain one."""

    def spec(layout: tuple[int, int, int] | None, **more: Any) -> RunSpec:
        return spec_of(*(layout or (1, 1, 1)), sharded_optimizer=layout is not None, **more)

    half = STEPS // 2
    whole = curve(forked, tmp_path / "whole", spec_of(1, 1, 1))
    before = curve(forked, tmp_path, spec(saved), last=half, save=True)
    folder = tmp_path / "checkpoints" / f"step-{half:08d}"
    after = curve(forked, tmp_path, spec(resumed, resume=str(folder)), first=half)

    assert whole == pytest.approx(before + after, rel=1e-5)


def test_a_batch_in_four_parts_is_a_batch_in_one(forked: Forked, tmp_path: Path) -> None:
    whole, parts = spec_of(1, 1, 1), spec_of(1, 1, 1)
    parts = replace(parts, training=replace(parts.training, micro_batch=2, micro_batches=4))

    assert whole.training.samples == parts.training.samples
    assert curve(forked, tmp_path / "one", whole) == pytest.approx(
        curve(forked, tmp_path / "four", parts), rel=1e-5
    )


def test_the_same_layout_twice_is_equal_to_the_last_bit(forked: Forked, tmp_path: Path) -> None:
    first, again = (curve(forked, tmp_path / name, spec_of(2, 1, 2)) for name in ("first", "again"))

    assert first == again


@pytest.mark.parametrize("pp", [1, 2])
def test_the_loss_is_a_part_of_the_last_stage_s_forward_pass(
    forked: Forked, tmp_path: Path, pp: int
) -> None:
    spec = spec_of(pp, 1, 1)
    dataset = prepared(spec, tmp_path)
    true, within, seen = Gpt.mean_loss, [], []

    def noted(self: Gpt, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        seen.append([*within])
        return true(self, logits, targets)

    @contextmanager
    def segment(name: str, tag: str) -> Iterator[None]:
        within.append(f"{name} {tag}")
        yield
        within.pop()

    def work(rank: int) -> Any:
        Gpt.mean_loss = noted  # type: ignore[method-assign]
        groups, comm = joined(spec, rank, tmp_path)
        step(set_up(spec, rank, groups, comm, dataset, segment), 0)
        return seen

    *others, last = forked(pp, work)

    assert [[]] * (pp - 1) == others
    assert [[f"forward c0.m{i}"] for i in range(spec.training.micro_batches)] == last


def learned(forked: Forked, folder: Path, spec: RunSpec, steps: int, unseen: Any) -> float:
    """Loss on unseen sequences after so many steps of one rank."""
    dataset = prepared(spec, folder)

    def work(rank: int) -> float:
        groups, comm = joined(spec, rank, folder)
        parts = set_up(spec, rank, groups, comm, dataset, lambda _name, _tag: nullcontext())
        for number in range(steps):
            step(parts, number)
        model, ids = parts.chunks[0], torch.from_numpy(unseen)
        with torch.no_grad():
            return float(model.mean_loss(model(ids[:, :-1]), ids[:, 1:]))

    return float(forked(1, work)[0])


@pytest.mark.slow
def test_the_markov_source_is_learned_and_its_floor_is_kept(forked: Forked, tmp_path: Path) -> None:
    """Not below the Bayes loss of the very tokens it is evaluated on: that would be a leak."""
    spec = replace(spec_of(1, 1, 1), steps=200, training=Training(micro_batch=16))
    config = spec.training.config
    source = MarkovSource(config.vocabulary, spec.seed)
    unseen = source.documents(10**6, 256, config.sequence + 1)
    loss = learned(forked, tmp_path, spec, 200, unseen)

    assert source.bayes_loss(unseen) <= loss <= 1.06 * source.entropy_rate_nats


@pytest.mark.slow
def test_the_copy_source_is_learned_so_attention_and_positions_work(
    forked: Forked, tmp_path: Path
) -> None:
    """Without them nothing is predictable, and the loss stays at ln V."""
    training = Training(data="copy", vocabulary=16, sequence=16, micro_batch=32)
    spec = replace(spec_of(1, 1, 1), steps=600, training=training)
    unseen = CopySource(16, spec.seed).documents(10**6, 256, 16)
    loss = learned(forked, tmp_path, spec, 600, unseen)

    # Of 15 predictions 7 are of the first half, which nobody can guess.
    assert 7 / 15 * np.log(16) * 0.97 <= loss <= 7 / 15 * np.log(16) * 1.2
