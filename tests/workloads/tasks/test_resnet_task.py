"""Ranks of a residual network agree; a run that cannot be is refused in one sentence."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import GROUPS
from lockstep.workloads.data import gratings
from lockstep.workloads.data.images import whole_batch
from lockstep.workloads.loop.rank import Accelerator
from lockstep.workloads.loop.trainable import Context
from lockstep.workloads.models.image_configs import IMAGE_CONFIGS, ImageConfig
from lockstep.workloads.models.image_training import ImageTraining
from lockstep.workloads.parallel import mesh
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.spec import DataError, Layout, RunSpec, SpecError, Training
from lockstep.workloads.tasks.resnet import TASK
from tests.workloads.ranks import recorder_of

HOST = Accelerator(torch.device("cpu"))

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
SMALL = ImageConfig("small", (1, 1), (4, 8), bottleneck=False, side=32, classes=10)


def spec(world: int = 1, steps: int = 4, **training: Any) -> RunSpec:
    settings = replace(TASK.defaults, micro_batch=4, micro_batches=1, **training)
    return RunSpec("run", "resnet", Layout(1, world, world), steps, 1, settings)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(IMAGE_CONFIGS, "small", SMALL)
    gratings.write_folder(tmp_path, 40, 31, 32, seed=1)
    return tmp_path


def rank(
    number: int, world: int, data: Path, told: list[str] | None = None, steps: int = 90
) -> ImageTraining:
    IMAGE_CONFIGS["small"] = SMALL
    settings = spec(world, steps, model="small")
    recorder = recorder_of(number, settings.layout, data)
    groups = mesh.build(settings.layout)

    @contextmanager
    def segment(name: str, tag: str) -> Iterator[None]:
        if told is not None:
            told.append(f"{name} {tag}")
        yield

    context = Context(
        settings, number, groups, Comm(recorder, groups.groups), data, segment,
        lambda _share: None, torch.device("cpu"),
    )  # fmt: skip
    found = TASK.set_up(context)
    assert isinstance(found, ImageTraining)
    return found


def stepped(training: ImageTraining, steps: int) -> None:
    for step in range(steps):
        training.train(HOST.batch(training.batch(step)))
        training.reduce()
        training.update(step)


def collectives(data: Path, number: int) -> int:
    raw = (data / ring.file_name(number)).read_bytes()[ring.GROUP_COUNTERS_OFFSET :]
    entries = ring.GROUP_COUNTERS.iter_unpack(raw[: len(GROUPS) * ring.GROUP_COUNTERS.size])
    return sum(int(entry[1]) for entry in entries)


@pytest.mark.distributed
def test_ranks_have_the_same_weights_and_the_same_evaluation(forked: Forked, folder: Path) -> None:
    def work(number: int) -> Any:
        training = rank(number, 3, folder)
        stepped(training, 3)
        weights = torch.cat([p.detach().flatten() for p in training.model.parameters()])
        running = [b.flatten().tolist() for b in training.model.buffers()]
        metrics = training.evaluate()
        after = [b.flatten().tolist() for b in training.model.buffers()]
        return weights.tolist(), dict(metrics), running, after

    answers = forked(3, work)

    for weights, metrics, _, after in answers:
        assert answers[0][0] == weights
        assert answers[0][1] == metrics
        assert answers[0][3] == after
    for place, own in enumerate(zip(*(running for _, _, running, _ in answers), strict=True)):
        assert np.mean(own, axis=0) == pytest.approx(answers[0][3][place], rel=1e-5, abs=1e-7)


@pytest.mark.distributed
def test_an_evaluation_over_ranks_is_that_of_all_images_on_one(
    forked: Forked, folder: Path
) -> None:
    def work(number: int) -> Any:
        training = rank(number, 2, folder)
        stepped(training, 2)
        metrics = training.evaluate()
        batch = whole_batch(training._validation, 0, 31)
        training.model.eval()
        with torch.no_grad():
            logits = training.model(torch.from_numpy(batch.images).permute(0, 3, 1, 2))
        labels = torch.from_numpy(batch.labels)
        loss = torch.nn.functional.cross_entropy(logits, labels).item()
        accuracy = (logits.argmax(dim=1) == labels).double().mean().item()
        return metrics["accuracy"], accuracy, metrics["loss"], loss

    for accuracy, whole_accuracy, loss, whole_loss in forked(2, work):
        assert whole_accuracy == pytest.approx(accuracy)
        assert whole_loss == pytest.approx(loss, rel=1e-5)


@pytest.mark.distributed
def test_one_rank_alone_communicates_nothing(forked: Forked, folder: Path) -> None:
    def work(number: int) -> int:
        training = rank(number, 1, folder)
        before = collectives(folder, 0)
        stepped(training, 2)
        training.evaluate()
        return collectives(folder, 0) - before

    assert [0] == forked(1, work)


@pytest.mark.distributed
def test_a_batch_is_learned_by_heart_with_forward_and_backward_told(
    forked: Forked, folder: Path
) -> None:
    def work(number: int) -> Any:
        told: list[str] = []
        training = rank(number, 1, folder, told)
        batch = HOST.batch(training.batch(0))
        losses = []
        for step in range(60):
            losses.append(training.train(batch).item())
            training.reduce()
            training.update(step)
        return losses, told[:3]

    [(losses, told)] = forked(1, work)

    assert math.log(10) / 2 < losses[0]
    assert losses[-1] < 0.2
    assert ["forward c0.m0", "backward c0.m0", "forward c0.m0"] == told


@pytest.mark.distributed
def test_gradients_that_are_not_finite_change_nothing(forked: Forked, folder: Path) -> None:
    def work(number: int) -> Any:
        training = rank(number, 1, folder)
        stepped(training, 1)
        before = [p.detach().clone() for p in training.model.parameters()]
        training.train(HOST.batch(training.batch(1)))
        parameter = next(training.model.parameters())
        assert parameter.grad is not None
        parameter.grad[0] = math.nan
        training.reduce()
        update = training.update(1)
        after = list(training.model.parameters())
        same = all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        return same, update.skipped.item(), update.norm.isfinite().item()

    assert [[True, 1.0, False]] == forked(1, work)


@pytest.mark.distributed
def test_momentum_and_decay_are_those_of_the_recipe(forked: Forked, folder: Path) -> None:
    """w2 = w1 - rate (0.9 (g1 + 1e-4 w0) + g2 + 1e-4 w1): no Nesterov."""

    def work(number: int) -> float:
        training = rank(number, 1, folder)
        parameter = next(training.model.parameters())
        weights, gradients = [parameter.detach().clone()], []
        for step in range(2):
            training.train(HOST.batch(training.batch(step)))
            assert parameter.grad is not None
            gradients.append(parameter.grad.clone())
            training.reduce()
            training.update(step)
            weights.append(parameter.detach().clone())
        first = gradients[0] + 1e-4 * weights[0]
        second = 0.9 * first + gradients[1] + 1e-4 * weights[1]
        return (weights[2] - (weights[1] - 0.02 * second)).abs().max().item()

    assert forked(1, work)[0] < 1e-7


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (Layout(1, 2, 1, tp=2), "--tp 2 and --pp 1 must be 1"),
        (Layout(1, 2, 1, pp=2), "--tp 1 and --pp 2 must be 1"),
    ],
)
def test_a_model_that_is_divided_is_refused(layout: Layout, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        TASK.check(replace(spec(), layout=layout))


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SpecError, match="unknown model 'resnet21'; one of resnet20, resnet32"):
        TASK.check(spec(model="resnet21"))


def test_files_of_the_wrong_size_are_refused_before_any_rank_starts(folder: Path) -> None:
    (folder / "data_batch_3.bin").write_bytes(b"x" * 3074)

    with pytest.raises(DataError, match=r"data_batch_3\.bin has 3,074 bytes"):
        TASK.check(spec(data=str(folder)))


def test_synthetic_images_are_said_to_be_with_their_best_accuracy() -> None:
    about = TASK.about(spec())

    assert "synthetic" == about["data"]
    assert 269_722 == about["parameters"]
    assert gratings.best_accuracy() == about["optimum"]["accuracy"]


def test_ones_own_images_have_no_known_optimum(folder: Path) -> None:
    about = TASK.about(TASK.check(spec(data=str(folder))))

    assert str(folder) == about["data"]
    assert "optimum" not in about


@pytest.mark.parametrize(("model", "side"), [("resnet20", 32), ("resnet50", 64)])
def test_what_is_prepared_is_what_the_ranks_read(tmp_path: Path, model: str, side: int) -> None:
    settings = spec(2, steps=3, model=model)

    data = TASK.prepare(settings, tmp_path)

    record = 3 * side * side + 1
    sizes = [path.stat().st_size for path in sorted(data.glob("data_batch_*.bin"))]
    assert [5 * record] * 5 == sizes  # 24 images, rounded up to files alike
    assert (data / "SYNTHETIC").exists()
    assert TASK.about(settings)["side"] == side


def test_defaults_are_of_a_model_that_is_known() -> None:
    assert TASK.defaults.model in IMAGE_CONFIGS
    assert {field for field in TASK.options if not hasattr(Training(), field)} == set()
