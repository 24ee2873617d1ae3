"""Batches of images from any set, in an order that (seed, epoch) decides.

The order does not know the layout of ranks: any number of ranks learns from the same batches. An
epoch's end falls inside a batch: the batch goes on with the next epoch, so that every image comes
exactly once an epoch and none is dropped.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

ORDER, VARIATION = 10, 11
"""What a random draw is for, as part of its seed: one never repeats the other."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean and standard deviation of red, green and blue, where white is 1."""

    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


class ImageSet(Protocol):
    """Images with their classes."""

    @property
    def statistics(self) -> Statistics:
        """Of all images to learn from."""
        ...

    @property
    def labels(self) -> NDArray[np.uint8] | NDArray[np.int64]:
        """Class of each image."""
        ...

    def __len__(self) -> int:
        """Number of images."""
        ...

    def whole(self, index: int) -> NDArray[np.uint8]:
        """An image to validate on, (side, side, 3)."""
        ...

    def varied(self, index: int, dice: np.random.Generator) -> NDArray[np.uint8]:
        """An image to learn from, (side, side, 3)."""
        ...


@dataclass(frozen=True, slots=True)
class ImageBatch:
    """Images that a model takes at once.

    Attributes:
        images: Normalised, (count, side, side, 3): torch's channels_last, permuted.
        labels: (count).
    """

    images: NDArray[np.float32]
    labels: NDArray[np.int64]


class ImageStream:
    """Images to learn from without end, epoch after epoch; deterministic in (seed, number)."""

    def __init__(self, images: ImageSet, seed: int) -> None:
        self._images = images
        self._seed = seed
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def position(self, number: int) -> tuple[int, int]:
        """(epoch, index of the image) that comes as `number` from the start."""
        epoch, position = divmod(number, len(self._images))
        if epoch != self._epoch:
            self._order = np.random.default_rng([self._seed, ORDER, epoch]).permutation(
                len(self._images)
            )
            self._epoch = epoch
        return epoch, int(self._order[position])

    def batch(self, first: int, count: int) -> ImageBatch:
        """`count` consecutive images."""
        places = [self.position(number) for number in range(first, first + count)]
        pixels = [
            self._images.varied(index, np.random.default_rng([self._seed, VARIATION, epoch, index]))
            for epoch, index in places
        ]
        return normalised(self._images, pixels, [index for _, index in places])


def whole_batch(images: ImageSet, first: int, last: int) -> ImageBatch:
    """Images `first` to `last` (exclusive) to validate on."""
    indices = list(range(first, last))
    return normalised(images, [images.whole(index) for index in indices], indices)


def normalised(images: ImageSet, pixels: list[NDArray[np.uint8]], indices: list[int]) -> ImageBatch:
    """A batch of pixels, each channel with mean 0 and deviation 1 over the data set."""
    values = np.stack(pixels).astype(np.float32)
    values -= 255 * np.array(images.statistics.mean, np.float32)
    values /= 255 * np.array(images.statistics.deviation, np.float32)
    return ImageBatch(values, images.labels[indices].astype(np.int64))


def shifted(
    image: NDArray[np.uint8], most: int, fill: NDArray[np.uint8], dice: np.random.Generator
) -> NDArray[np.uint8]:
    """(side, side, 3) moved by up to `most` pixels each way, and mirrored every second time.

    He et al. 2015 (arXiv 1512.03385), section 4.2: a crop of the image with `most` pixels more on
    each side, which are the data set's mean (zero after normalisation), as here `fill`.
    """
    down, right = (int(step) for step in dice.integers(-most, most + 1, 2))
    side = len(image)
    moved = np.empty_like(image)
    moved[:] = fill
    rows = slice(max(0, -down), side - max(0, down))
    columns = slice(max(0, -right), side - max(0, right))
    from_rows = slice(max(0, down), side - max(0, -down))
    from_columns = slice(max(0, right), side - max(0, -right))
    moved[rows, columns] = image[from_rows, from_columns]
    return mirrored(moved, dice)


def mirrored(image: NDArray[np.uint8], dice: np.random.Generator) -> NDArray[np.uint8]:
    """(rows, columns, 3), left and right exchanged every second time."""
    return image[:, ::-1] if dice.random() < 0.5 else image
