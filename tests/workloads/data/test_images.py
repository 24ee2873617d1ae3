"""Every image comes once an epoch, on any number of ranks; what is varied is a crop of it."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lockstep.workloads.data.images import ImageStream, Statistics, shifted, whole_batch


class Numbered:
    """Images whose pixels are their index."""

    statistics = Statistics((0.5, 0.25, 0.0), (0.5, 0.25, 1.0))

    def __init__(self, count: int) -> None:
        self.labels = np.arange(count)

    def __len__(self) -> int:
        return len(self.labels)

    def whole(self, index: int) -> NDArray[np.uint8]:
        return np.full((4, 4, 3), index, np.uint8)

    def varied(self, index: int, dice: np.random.Generator) -> NDArray[np.uint8]:
        return self.whole(index) + dice.integers(0, 2, (4, 4, 3), np.uint8)


def taken(count: int, ranks: int, each: int, steps: int) -> list[int]:
    """Labels that the ranks see, each with a stream of its own, in the order of steps."""
    streams = [ImageStream(Numbered(count), seed=3) for _ in range(ranks)]
    found: list[int] = []
    for step in range(steps):
        for rank, stream in enumerate(streams):
            found += stream.batch((step * ranks + rank) * each, each).labels.tolist()
    return found


@settings(max_examples=40)
@given(ranks=st.integers(1, 5), each=st.integers(1, 9))
def test_100_samples_in_are_100_samples_out_of_every_epoch(ranks: int, each: int) -> None:
    steps = -(-200 // (ranks * each))

    found = taken(100, ranks, each, steps)

    for epoch in (found[:100], found[100:200]):
        assert dict.fromkeys(range(100), 1) == Counter(epoch)


@settings(max_examples=40)
@given(count=st.integers(1, 40), ranks=st.integers(1, 4), each=st.integers(1, 6))
def test_the_order_does_not_know_how_many_ranks_there_are(
    count: int, ranks: int, each: int
) -> None:
    total = ranks * each * 6

    assert taken(count, 1, total, 1) == taken(count, ranks, each, 6)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    stream, other = ImageStream(Numbered(50), 1), ImageStream(Numbered(50), 2)
    first, second = stream.batch(0, 50).labels, stream.batch(50, 50).labels

    assert first.tolist() != second.tolist()
    assert first.tolist() != other.batch(0, 50).labels.tolist()


def test_a_batch_is_the_same_whenever_it_is_asked_for() -> None:
    stream = ImageStream(Numbered(30), 1)
    before = stream.batch(25, 10)
    stream.batch(1000, 10)

    after = stream.batch(25, 10)

    assert before.labels.tolist() == after.labels.tolist()
    assert before.images.tolist() == after.images.tolist()


def test_an_image_is_varied_anew_in_each_epoch() -> None:
    stream = ImageStream(Numbered(1), 1)

    assert stream.batch(0, 1).images.tolist() != stream.batch(1, 1).images.tolist()


def test_pixels_are_normalised_by_channel() -> None:
    batch = whole_batch(Numbered(256), 255, 256)

    assert np.float32 == batch.images.dtype
    assert [1.0, 3.0, 1.0] == pytest.approx(batch.images[0, 2, 3].tolist())


@given(seed=st.integers(0, 10_000), most=st.integers(0, 5))
def test_a_shifted_image_is_a_crop_of_the_padded_one(seed: int, most: int) -> None:
    dice = np.random.default_rng(seed)
    image = dice.integers(0, 256, (8, 8, 3), np.uint8)
    fill = np.array([1, 2, 3], np.uint8)
    padded = np.pad(image, ((most, most), (most, most), (0, 0)))
    for channel in range(3):
        padded[..., channel] = np.pad(image[..., channel], most, constant_values=int(fill[channel]))
    crops = [
        padded[down : down + 8, right : right + 8]
        for down in range(2 * most + 1)
        for right in range(2 * most + 1)
    ]

    found = shifted(image, most, fill, dice)

    assert any(np.array_equal(found, c) or np.array_equal(found[:, ::-1], c) for c in crops)


def test_all_shifts_and_mirrors_come() -> None:
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    dice, fill = np.random.default_rng(1), np.zeros(3, np.uint8)

    found = {shifted(image, 1, fill, dice).tobytes() for _ in range(400)}

    assert 2 * 9 == len(found)
