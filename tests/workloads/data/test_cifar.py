"""CIFAR-10's files are read byte for byte, and a broken one is named in one sentence."""

import re
from pathlib import Path

import numpy as np
import pytest

from lockstep.workloads.data.cifar import TRAINING_FILES, VALIDATION_FILES, CifarImages, write
from lockstep.workloads.spec import DataError

IMAGE = 3072


def record(number: int, label: int) -> bytes:
    """One image as the data set's page describes it, by plain Python."""
    red = bytes((number + place) % 256 for place in range(1024))
    green = bytes((number + 2 * place) % 256 for place in range(1024))
    blue = bytes((number + 3 * place) % 256 for place in range(1024))
    return bytes([label]) + red + green + blue


def written(folder: Path, counts: tuple[int, ...] = (3, 2, 4, 1, 2)) -> list[bytes]:
    """The five files with so many images; returns the records in order."""
    every: list[bytes] = []
    for name, count in zip(TRAINING_FILES, counts, strict=True):
        records = [record(len(every) + one, (len(every) + one) % 10) for one in range(count)]
        (folder / name).write_bytes(b"".join(records))
        every += records
    return every


def test_every_image_is_the_bytes_of_its_record(tmp_path: Path) -> None:
    records = written(tmp_path)

    images = CifarImages(tmp_path, TRAINING_FILES)

    assert len(records) == len(images)
    assert [one[0] for one in records] == images.labels.tolist()
    for index, one in enumerate(records):
        assert one[1:] == images.pixels(index).tobytes()


def test_a_pixel_is_where_the_format_says(tmp_path: Path) -> None:
    records = written(tmp_path)
    images = CifarImages(tmp_path, TRAINING_FILES)
    row, column = 5, 9

    red, green, blue = images.whole(7)[row, column]

    place = 1 + 32 * row + column
    assert (records[7][place], records[7][place + 1024], records[7][place + 2048]) == (
        red, green, blue,
    )  # fmt: skip


def test_images_are_mapped_and_not_copied(tmp_path: Path) -> None:
    written(tmp_path)
    images = CifarImages(tmp_path, TRAINING_FILES)

    assert np.shares_memory(images.pixels(4), images._files[1])
    assert np.shares_memory(images.whole(4), images._files[1])
    assert not images.pixels(4).flags.writeable


def test_what_is_written_is_the_format(tmp_path: Path) -> None:
    labels = np.array([7, 0], np.uint8)
    pixels = np.random.default_rng(1).integers(0, 256, (2, 3, 32, 32), np.uint8)

    write(tmp_path / "test_batch.bin", labels, pixels)

    expected = b"\x07" + bytes(pixels[0].ravel()) + b"\x00" + bytes(pixels[1].ravel())
    assert expected == (tmp_path / "test_batch.bin").read_bytes()


@pytest.mark.parametrize("extra", [-1, 1, -3073])
def test_a_file_of_the_wrong_size_is_named_with_the_right_one(tmp_path: Path, extra: int) -> None:
    path = tmp_path / "test_batch.bin"
    path.write_bytes(record(1, 1)[: 3073 + extra] + b"x" * max(0, extra))

    with pytest.raises(DataError) as caught:
        CifarImages(tmp_path, VALIDATION_FILES)

    assert (
        f"{path} has {3073 + extra:,} bytes, which is no whole number of images; CIFAR-10's has"
        " 30,730,000 bytes, 10,000 records of 3,073"
    ) == str(caught.value)


def test_a_label_above_nine_is_named_with_its_file_and_record(tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / TRAINING_FILES[2]
    path.write_bytes(record(1, 3) + record(2, 10))

    with pytest.raises(DataError) as caught:
        CifarImages(tmp_path, TRAINING_FILES)

    assert f"{path} has label 10 in record 1; CIFAR-10 has labels 0 to 9" == str(caught.value)


def test_a_missing_file_is_named_with_those_that_must_be_there(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / TRAINING_FILES[4]).unlink()

    with pytest.raises(DataError, match=re.escape(str(tmp_path / TRAINING_FILES[4]))) as caught:
        CifarImages(tmp_path, TRAINING_FILES)

    assert "No such file" in str(caught.value)
    assert "test_batch.bin in one folder" in str(caught.value)


def test_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").mkdir()

    with pytest.raises(DataError, match=r"cannot read .*test_batch\.bin"):
        CifarImages(tmp_path, VALIDATION_FILES)
