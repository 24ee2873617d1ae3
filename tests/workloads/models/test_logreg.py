"""Logistic regression: ranks train as one, evaluation is right, and the best accuracy is near."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
import torch

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import GROUPS, Phase
from lockstep.workloads.data.epsilon import Epsilon
from lockstep.workloads.loop.evaluation import Tracker
from lockstep.workloads.loop.goals import parse
from lockstep.workloads.loop.trainable import Context
from lockstep.workloads.models.logreg import PENALTY, Draws, LogisticRegression, Rows, flops
from lockstep.workloads.parallel import mesh
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.spec import DataError, Layout, RunSpec, SpecError
from lockstep.workloads.tasks.logreg import TASK
from tests.workloads.ranks import recorder_of

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
SMALL = Epsilon(9, features=30, dimensions=10, train=600, validation=101)


def spec(ranks: int, **training: Any) -> RunSpec:
    layout = Layout(1, ranks, ranks)
    settings = replace(TASK.defaults, model="linear-30", micro_batches=1, **training)
    return RunSpec("run", "logreg", layout, 20, 9, settings, pace=False)


def joined(rank: int, what: RunSpec, folder: Path, data: Path) -> Context:
    recorder = recorder_of(rank, what.layout, folder, f"rendezvous-{what.layout.world}")
    groups = mesh.build(what.layout)
    comm = Comm(recorder, groups.groups)

    @contextmanager
    def segment(_name: str, _tag: str) -> Iterator[None]:
        yield

    return Context(
        what, rank, groups, comm, data, segment, lambda _share: None, torch.device("cpu")
    )


def trained(rank: int, what: RunSpec, folder: Path, data: Path, steps: int) -> LogisticRegression:
    found = LogisticRegression(joined(rank, what, folder, data))
    for step in range(steps):
        found.train(found.batch(step))
        found.reduce()
        found.update(step)
    return found


def by_hand(data: Path, what: RunSpec, steps: int, batch: int, rate: float) -> np.ndarray:
    """Weights after plain SGD on the mean gradient, in float64."""
    rows = Rows(data, "train")
    draws = Draws(len(rows), what.seed)
    weights = np.zeros(rows.features)
    for step in range(steps):
        x, y = (part.numpy() for part in rows.take(draws.numbers(step * batch, batch)))
        chance = 1 / (1 + np.exp(-(x.astype(np.float64) @ weights)))
        weights -= rate * (x.T @ (chance - y) / batch + PENALTY * weights)
    return weights


def collectives(folder: Path, rank: int) -> int:
    """Operations on any group that the rank's ring has counted."""
    raw = (folder / ring.file_name(rank)).read_bytes()[ring.GROUP_COUNTERS_OFFSET :]
    entries = ring.GROUP_COUNTERS.iter_unpack(raw[: len(GROUPS) * ring.GROUP_COUNTERS.size])
    return sum(int(entry[1]) for entry in entries)


@pytest.mark.distributed
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_any_number_of_ranks_trains_as_one_with_the_whole_batch_does(
    forked: Forked, tmp_path: Path, ranks: int
) -> None:
    SMALL.write(tmp_path)
    what = spec(ranks, micro_batch=24 // ranks, learning_rate=4.0)

    def work(rank: int) -> Any:
        return trained(rank, what, tmp_path, tmp_path, 40)._weights.tolist()

    weights = forked(ranks, work)
    wanted = by_hand(tmp_path, what, 40, 24, 4.0 * ranks)

    assert all(weights[0] == of for of in weights)
    assert np.allclose(wanted, weights[0], rtol=1e-3, atol=1e-4)
    assert np.abs(wanted).max() > 1.0


@pytest.mark.distributed
def test_every_rank_has_the_metrics_of_all_validation_rows(forked: Forked, tmp_path: Path) -> None:
    SMALL.write(tmp_path)
    what = spec(2, micro_batch=12)

    def work(rank: int) -> Any:
        found = trained(rank, what, tmp_path, tmp_path, 10)
        return [dict(found.evaluate()), found._weights.tolist()]

    (one, weights), (other, _) = forked(2, work)
    rows, labels = (part.numpy() for part in Rows(tmp_path, "validation").take(slice(None)))
    logits = rows.astype(np.float64) @ np.array(weights)

    assert one == other
    assert one["accuracy"] == pytest.approx(((logits > 0) == labels).mean())
    loss = np.logaddexp(0, np.where(labels > 0, -logits, logits)).mean()
    assert one["loss"] == pytest.approx(loss, rel=1e-5)


@pytest.mark.distributed
@pytest.mark.parametrize(("ranks", "wanted"), [(1, 0), (2, 4)])
def test_one_rank_communicates_nothing_and_two_once_a_step_and_evaluation(
    forked: Forked, tmp_path: Path, ranks: int, wanted: int
) -> None:
    SMALL.write(tmp_path)

    def work(rank: int) -> Any:
        trained(rank, spec(ranks), tmp_path, tmp_path, 3).evaluate()
        return collectives(tmp_path, rank)

    assert [wanted] * ranks == forked(ranks, work)


@pytest.mark.distributed
def test_gradients_that_are_not_finite_change_nothing(forked: Forked, tmp_path: Path) -> None:
    SMALL.write(tmp_path)

    def work(rank: int) -> Any:
        found = trained(rank, spec(1), tmp_path, tmp_path, 3)
        before = found._weights.tolist()
        rows, labels = found.batch(3)
        rows[0, 0] = np.nan
        found.train((rows, labels))
        found.reduce()
        update = found.update(3)
        return [before == found._weights.tolist(), float(update.skipped)]

    assert [[True, 1.0]] == forked(1, work)


@pytest.mark.distributed
def test_the_defaults_come_within_two_points_of_the_best_accuracy(
    forked: Forked, tmp_path: Path
) -> None:
    what = RunSpec("run", "logreg", Layout(1, 2, 2), 200, 42, TASK.defaults, pace=False)
    what = TASK.check(what)
    data = TASK.prepare(what, tmp_path)

    def work(rank: int) -> Any:
        tracker = Tracker(parse("full", TASK.goals), workers=2, synthetic=True)
        began = monotonic()
        found = trained(rank, what, tmp_path, data, 200)
        seconds = monotonic() - began
        spent = {Phase.FORWARD: seconds}
        reached = tracker.observe_evaluation(199, found.evaluate(), spent, seconds)
        return [found.results(), None if reached is None else reached.text]

    results = forked(2, work)

    assert results[0][0] == results[1][0]
    assert -1.0 < results[0][0]["points_below_bayes"] < 2.0
    assert pytest.approx(0.284, abs=0.002) == results[0][0]["standard_error_points"]
    assert results[0][1].startswith("89% Top 1 Validation Accuracy reached in ")
    assert results[0][1].endswith("(synthetic data: not an MLBench result)")


@pytest.mark.distributed
def test_libsvm_text_teaches_what_the_rows_behind_it_do(
    forked: Forked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SMALL.write(tmp_path)
    for split, name in (("train", "x.gz"), ("validation", "x.t.gz")):
        rows, labels = (part.numpy() for part in Rows(tmp_path, split).take(slice(None)))
        lines = [
            f"{2 * int(label) - 1} " + " ".join(f"{i}:{v!s}" for i, v in enumerate(row, start=1))
            for row, label in zip(rows, labels, strict=True)
        ]
        (tmp_path / name).write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.setenv("LOCKSTEP_CACHE_DIR", str(tmp_path / "cache"))
    what = TASK.check(spec(1, micro_batch=50, data=str(tmp_path / "x.gz")))
    folder = TASK.prepare(what, tmp_path)

    def work(rank: int) -> Any:
        found = trained(rank, what, tmp_path, folder, 40)
        return [found._weights.tolist(), found.results()]

    ((weights, results),) = forked(1, work)

    assert np.allclose(by_hand(tmp_path, what, 40, 50, 4.0), weights, rtol=1e-3, atol=1e-4)
    assert {} == results
    assert str(tmp_path / "x.gz") == TASK.about(what)["data"]
    assert 600 == TASK.about(what)["train_rows"]


def test_run_json_says_synthetic_and_the_best_accuracy() -> None:
    told = TASK.about(RunSpec("run", "logreg", Layout(1, 1, 1), 20, 1, TASK.defaults))

    assert "synthetic" == told["data"]
    assert pytest.approx(0.9115, abs=5e-4) == told["bayes_accuracy"]
    assert 2000 == told["parameters"]
    assert "6N" == told["formula"]
    assert 12_000.0 == flops(2000)


def test_the_data_depend_on_the_seed_of_the_run(tmp_path: Path) -> None:
    for seed in (1, 2):
        TASK.prepare(replace(spec(1), seed=seed), tmp_path / str(seed))
    one, other = (
        (tmp_path / seed / "data" / "logreg" / "train.labels").read_bytes() for seed in "12"
    )

    assert one != other


@pytest.mark.parametrize(
    ("layout", "training", "why"),
    [
        (Layout(1, 2, 1, tp=2), {}, "logreg is data parallel alone: --tp 2 and --pp 1 must be 1"),
        (Layout(1, 1, 1), {"model": "resnet20"}, "unknown model 'resnet20'; give epsilon"),
        (Layout(1, 1, 1), {"model": "linear-1"}, "linear-N for N features, from 2 to 100000"),
        (Layout(1, 1, 1), {"model": "linear-100001"}, "unknown model 'linear-100001'"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    layout: Layout, training: dict[str, Any], why: str
) -> None:
    what = RunSpec("run", "logreg", layout, 20, 1, replace(TASK.defaults, **training))

    with pytest.raises(SpecError, match=why):
        TASK.check(what)


def test_data_that_are_not_there_are_refused_before_any_rank_starts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*none: No such file or directory"):
        TASK.check(spec(1, data=str(tmp_path / "none")))
