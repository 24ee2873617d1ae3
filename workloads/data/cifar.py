"""CIFAR-10's binary files, mapped into memory: a byte of label, then planes of red, green, blue.

Format: the data set's own page, "Binary version" (Krizhevsky, cs.toronto.edu/~kriz/cifar.html):
five files of 10,000 records of 3,073 bytes to learn from, one to validate. A file may hold any
whole number of records, and records of larger images: synthetic ones are written so. torchvision's
CIFAR10 reads neither: it unpickles the Python version, whole, and only those very files.
"""

from collections.abc import Sequence
from os import SEEK_END
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lockstep.workloads.data.images import Statistics, shifted
from lockstep.workloads.spec import DataError

TRAINING_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
VALIDATION_FILES = ("test_batch.bin",)
CLASSES = 10
SIDE = 32
PADDING = 4
"""Pixels on each side before a random crop (He et al. 2015, arXiv 1512.03385, section 4.2)."""
STATISTICS = Statistics((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
"""As MLBench's (mlbench-core dataset/imagerecognition/pytorch/dataloader.py)."""


class CifarImages:
    """Images of some files, in their order.

    Args:
        side: Pixels of an image's side.
        padding: Pixels by which an image to learn from is shifted at most.

    Attributes:
        labels: Class of each image, uint8.

    Raises:
        DataError: A file is missing, of a wrong size, or has a label above 9.
    """

    statistics = STATISTICS

    def __init__(
        self, folder: Path, names: Sequence[str], side: int = SIDE, padding: int = PADDING
    ) -> None:
        self.side = side
        self._padding = padding
        self._files = [_records(folder / name, side) for name in names]
        self._ends = np.cumsum([len(records) for records in self._files])
        self.labels = np.concatenate([records[:, 0] for records in self._files])
        if self.labels.max() >= CLASSES:
            _refuse_label(folder, names, self._ends, self.labels)

    def __len__(self) -> int:
        """Number of images."""
        return int(self._ends[-1])

    def pixels(self, index: int) -> NDArray[np.uint8]:
        """An image as it is in the file, (3, side, side); a view, not a copy."""
        file = int(np.searchsorted(self._ends, index, side="right"))
        offset = index - (int(self._ends[file - 1]) if file else 0)
        return self._files[file][offset, 1:].reshape(3, self.side, self.side)

    def whole(self, index: int) -> NDArray[np.uint8]:
        """An image to validate on, (side, side, 3)."""
        return self.pixels(index).transpose(1, 2, 0)

    def varied(self, index: int, dice: np.random.Generator) -> NDArray[np.uint8]:
        """An image to learn from, (side, side, 3): shifted and perhaps mirrored."""
        fill = np.rint(255 * np.array(STATISTICS.mean)).astype(np.uint8)
        return shifted(self.whole(index), self._padding, fill, dice)


def write(path: Path, labels: NDArray[np.uint8], pixels: NDArray[np.uint8]) -> None:
    """Write a file of images, (count, 3, side, side), in the order given.

    Raises:
        OSError: It cannot be written.
    """
    records = np.concatenate((labels[:, None], pixels.reshape(len(pixels), -1)), axis=1)
    path.write_bytes(np.ascontiguousarray(records, np.uint8).tobytes())


def _records(path: Path, side: int) -> NDArray[np.uint8]:
    """(images, 1 + 3 · side · side) bytes of a file."""
    record = 1 + 3 * side * side
    right = f"{10_000 * record:,} bytes, 10,000 records of {record:,}"
    if side != SIDE:
        right = f"a multiple of {record:,} bytes"
    try:
        with path.open("rb") as stream:  # a folder in its place has a size too
            size = stream.seek(0, SEEK_END)
        if size == 0 or size % record:
            raise DataError(
                f"{path} has {size:,} bytes, which is no whole number of images; CIFAR-10's has"
                f" {right}"
            )
        mapped = np.memmap(path, np.uint8, "r", shape=(size // record, record))
        return np.asarray(mapped)
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}; CIFAR-10's binary version has"
            f" {', '.join((*TRAINING_FILES, *VALIDATION_FILES))} in one folder"
        ) from error


def _refuse_label(
    folder: Path, names: Sequence[str], ends: NDArray[np.int64], labels: NDArray[np.uint8]
) -> None:
    index = int(np.argmax(labels >= CLASSES))
    file = int(np.searchsorted(ends, index, side="right"))
    offset = index - (int(ends[file - 1]) if file else 0)
    raise DataError(
        f"{folder / names[file]} has label {labels[index]} in record {offset}; CIFAR-10 has labels"
        f" 0 to {CLASSES - 1}"
    )
