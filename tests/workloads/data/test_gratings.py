"""The synthetic images have the best accuracy that is said of them, and say that they are."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import ive

from lockstep.workloads.data import gratings
from lockstep.workloads.data.cifar import TRAINING_FILES, VALIDATION_FILES, CifarImages

COUNT = 6000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images")
    gratings.write_folder(path, 50, COUNT, 32, seed=4)
    return path


@pytest.fixture(scope="module")
def pixels(folder: Path) -> np.ndarray:
    images = CifarImages(folder, VALIDATION_FILES)
    return np.stack([images.pixels(index) for index in range(len(images))])


@pytest.mark.parametrize("strength", [20.0, 35.0, 45.0])
def test_the_best_accuracy_is_that_of_many_draws(strength: float) -> None:
    dice = np.random.default_rng(2)
    draws = dice.normal(size=(200_000, gratings.CLASSES, 2))
    draws[:, 0, 0] += strength / 10
    right = (np.hypot(draws[..., 0], draws[..., 1]).argmax(axis=1) == 0).mean()

    assert right == pytest.approx(gratings.best_accuracy(strength, 10.0), abs=0.004)


def test_no_noise_and_no_pattern_are_the_ends_of_the_scale() -> None:
    assert 1.0 == pytest.approx(gratings.best_accuracy(1000.0, 1.0))
    assert 0.1 == pytest.approx(gratings.best_accuracy(0.0, 1.0))


def test_the_strongest_pattern_is_the_best_guess_and_attains_the_best_accuracy(
    folder: Path, pixels: np.ndarray
) -> None:
    """Read from the files: rounding to 256 levels and their ends cost nothing that is seen."""
    labels = CifarImages(folder, VALIDATION_FILES).labels
    best = gratings.best_accuracy()
    deviation = (best * (1 - best) / COUNT) ** 0.5

    found = gratings.strengths(pixels)
    right = (found.argmax(axis=1) == labels).mean()

    assert best == pytest.approx(right, abs=3 * deviation)
    # The likelihood of a class without its phase is that of Rice's distribution.
    scaled = gratings.STRENGTH * found / gratings.NOISE**2
    likelihood = np.log(ive(0, scaled)) + scaled
    assert found.argmax(axis=1).tolist() == likelihood.argmax(axis=1).tolist()


def test_rounding_moves_no_pattern_by_more_than_a_hundredth_of_its_noise(
    pixels: np.ndarray,
) -> None:
    """And of 18 million pixels hardly any is at the ends of the scale."""
    smooth = np.full((1, 3, 32, 32), gratings.MIDDLE)
    turns = 2 * np.pi * np.arange(32) / 8
    smooth[0, 0] += 37.3 * np.cos(turns + 1.1)[:, None]
    rounded = np.rint(smooth).astype(np.uint8)

    found = gratings.strengths(rounded)[0]

    expected = [37.3 * (pattern == (0, 8, 0)) for pattern in gratings.PATTERNS]
    assert expected == pytest.approx(found.tolist(), abs=gratings.NOISE / 100)
    assert np.isin(pixels, (0, 255)).mean() < 1e-5


def test_patterns_are_orthogonal() -> None:
    waves = []
    for channel, period, across in gratings.PATTERNS:
        image = np.zeros((3, 32, 32))
        line = np.cos(2 * np.pi * np.arange(32) / period)
        image[channel] = line[None, :] if across else line[:, None]
        waves.append(image.ravel())
    products = np.array(waves) @ np.array(waves).T

    assert np.allclose(512 * np.eye(gratings.CLASSES), products)


def test_the_folder_says_that_it_is_synthetic(folder: Path) -> None:
    assert (folder / "SYNTHETIC").read_text().startswith("Synthetic stripes, not CIFAR-10.")


def test_images_to_learn_from_are_not_those_to_validate_on(folder: Path) -> None:
    training = CifarImages(folder, TRAINING_FILES)
    validation = CifarImages(folder, VALIDATION_FILES)
    seen = {training.pixels(index).tobytes() for index in range(len(training))}

    assert 50 == len(seen)
    assert not seen & {validation.pixels(index).tobytes() for index in range(50)}


def test_the_same_seed_writes_the_same_files(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        gratings.write_folder(tmp_path / name, 10, 20, 32, seed)
    a, b, c = ((tmp_path / name / "test_batch.bin").read_bytes() for name in "abc")

    assert a == b
    assert a != c
