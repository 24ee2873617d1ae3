"""Synthetic rows of epsilon's shape have the best accuracy that they claim."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.data.epsilon import Epsilon
from lockstep.workloads.data.row_files import about
from lockstep.workloads.models.logreg import Draws, Rows


def drawn(what: Epsilon, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    parts = list(what.blocks(split))
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


@pytest.mark.parametrize("dimensions", [2, 10, 100])
def test_one_who_knows_the_weights_is_as_right_as_claimed(dimensions: int) -> None:
    what = Epsilon(3, features=200, dimensions=dimensions, train=100_000)
    rows, labels = drawn(what)
    logits = rows @ what.weights()
    right = ((logits > 0) == labels).mean()
    loss = np.logaddexp(0, np.where(labels, -logits, logits)).mean()

    assert what.bayes_accuracy() == pytest.approx(right, abs=0.003)
    assert what.bayes_loss() == pytest.approx(loss, abs=0.005)


def test_the_best_accuracy_of_the_defaults_is_two_points_above_mlbenchs_goal() -> None:
    assert pytest.approx(0.9115, abs=5e-4) == Epsilon(0).bayes_accuracy()


def test_more_signal_in_the_labels_makes_a_better_accuracy_possible() -> None:
    found = [Epsilon(0, strength=strength).bayes_accuracy() for strength in (1e-3, 1, 6, 1e4)]

    assert sorted(found) == found
    assert pytest.approx(0.5, abs=1e-3) == found[0]
    assert pytest.approx(1.0, abs=1e-3) == found[-1]


def test_rows_have_length_1_and_all_features(tmp_path: Path) -> None:
    what = Epsilon(5, train=300, validation=70)
    what.write(tmp_path)
    rows, labels = (part.numpy() for part in Rows(tmp_path, "train").take(np.arange(300)))

    assert (300, 2000) == rows.shape
    assert np.float32 == rows.dtype == labels.dtype
    assert np.allclose(1.0, np.linalg.norm(rows, axis=1), atol=1e-5)
    assert (rows != 0).mean() > 0.999
    assert {0.0, 1.0} == set(labels.tolist())
    assert 0.3 < labels.mean() < 0.7
    assert 70 == len(Rows(tmp_path, "validation"))


def test_the_files_are_the_rows_of_the_distribution(tmp_path: Path) -> None:
    what = Epsilon(5, features=150, train=40, validation=10)
    what.write(tmp_path)
    coordinates, labels = drawn(what, "validation")
    rows, read = Rows(tmp_path, "validation").take(slice(None))

    assert np.allclose(coordinates @ what.basis(), rows, atol=1e-6)
    assert labels.tolist() == read.tolist()


def test_the_seed_decides_everything_and_splits_differ() -> None:
    one, again, other = (drawn(Epsilon(seed, train=50))[0] for seed in (1, 1, 2))

    assert (one == again).all()
    assert not (one == other).any()
    assert not (one[:10] == drawn(Epsilon(1, validation=10), "validation")[0]).any()


def test_the_folder_says_that_it_is_synthetic(tmp_path: Path) -> None:
    Epsilon(5, features=150, train=40, validation=10).write(tmp_path)
    marker = json.loads((tmp_path / "SYNTHETIC").read_text())

    assert "synthetic" == marker["data"] == about(tmp_path)["about"]["data"]
    assert pytest.approx(0.9115, abs=5e-4) == marker["bayes_accuracy"]


def test_synthetic_rows_take_the_memory_of_their_dimensions(tmp_path: Path) -> None:
    Epsilon(5, features=150, train=500, validation=1).write(tmp_path)

    assert 500 * 100 * 4 == (tmp_path / "train.f32").stat().st_size


@given(rows=st.integers(1, 50), sizes=st.lists(st.integers(1, 70), max_size=8))
def test_every_row_comes_once_an_epoch_whatever_the_batches(rows: int, sizes: list[int]) -> None:
    draws, first = Draws(rows, seed=4), 0
    seen: list[int] = []
    for size in sizes:
        seen += draws.numbers(first, size).tolist()
        first += size
    epochs = [seen[begin : begin + rows] for begin in range(0, len(seen), rows)]

    assert all(sorted(epoch) == list(range(rows)) for epoch in epochs if len(epoch) == rows)
    assert all(1 == most for epoch in epochs for most in Counter(epoch).values())


def test_ranks_divide_the_same_order(tmp_path: Path) -> None:
    alone = Draws(100, seed=4).numbers(0, 150).tolist()
    parts = [Draws(100, seed=4).numbers(first, 15).tolist() for first in range(0, 150, 15)]

    assert alone == [number for part in parts for number in part]
    assert alone[:100] != sorted(alone[:100])
    assert alone[:50] != alone[100:]
