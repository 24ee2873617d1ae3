"""An ImageNet folder is read as torchvision's recipe reads it, and what is wrong is named."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.data.imagenet import ImageFolder, check, random_part
from lockstep.workloads.spec import DataError

Image = pytest.importorskip("PIL.Image", reason="needs Pillow")

GREY = (120, 130, 140)


def saved(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, "PNG")  # without loss, whatever its name ends in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes whose folders sort against the order of writing."""
    for half in ("train", "val"):
        for name, level in (("n02", 200), ("n01", 50)):
            for number in (2, 1):
                pixels = np.full((300, 400, 3), level + number, np.uint8)
                saved(tmp_path / half / name / f"{name}_{number}.JPEG", pixels)
    return tmp_path


def test_classes_and_images_are_in_the_order_of_their_names(folder: Path) -> None:
    images = ImageFolder(folder, "train")

    assert [0, 0, 1, 1] == images.labels.tolist()
    assert [51, 52, 201, 202] == [int(images.whole(index)[0, 0, 0]) for index in range(4)]


def test_to_validate_is_the_middle_224_of_256_pixels(tmp_path: Path) -> None:
    """An image of 512 x 1024: halved, its middle begins 16 and 144 pixels from the corner."""
    rows, columns = np.mgrid[0:512, 0:1024]
    pixels = np.stack([rows // 2, columns // 4, 0 * rows], axis=2).astype(np.uint8)
    saved(tmp_path / "val" / "n01" / "a.JPEG", pixels)

    found = ImageFolder(tmp_path, "val").whole(0)

    assert (224, 224, 3) == found.shape
    assert np.abs(found[:, 0, 0].astype(int) - (np.arange(224) + 16)).max() <= 1
    assert np.abs(found[0, :, 1].astype(int) - (np.arange(224) + 144) // 2).max() <= 1


def test_to_learn_from_is_a_part_that_the_dice_decide(folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    saved(folder / "train" / "n01" / "n01_0.JPEG", pixels)
    images = ImageFolder(folder, "train", side=32)

    one, same, other = (images.varied(0, np.random.default_rng(seed)) for seed in (1, 1, 2))

    assert (32, 32, 3) == one.shape
    assert one.tolist() == same.tolist()
    assert one.tolist() != other.tolist()


@given(st.integers(1, 600), st.integers(1, 600), st.integers(0, 10_000))
def test_a_random_part_is_inside_the_image(width: int, height: int, seed: int) -> None:
    left, top, right, bottom = random_part(width, height, np.random.default_rng(seed))

    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height


def test_random_parts_have_the_published_shares_and_shapes() -> None:
    dice = np.random.default_rng(3)
    parts = np.array([random_part(500, 400, dice) for _ in range(4000)])
    across, down = parts[:, 2] - parts[:, 0], parts[:, 3] - parts[:, 1]
    areas = across * down / 200_000

    assert 0.08 == pytest.approx(areas.min(), abs=0.005)
    assert areas.max() > 0.97
    assert np.all(across / down < 4 / 3 * 1.03)
    assert np.all(across / down > 3 / 4 / 1.03)


def test_an_image_of_one_colour_channel_becomes_three(tmp_path: Path) -> None:
    saved(tmp_path / "val" / "n01" / "a.JPEG", np.full((50, 50), 9, np.uint8))

    assert [9, 9, 9] == ImageFolder(tmp_path, "val").whole(0)[100, 100].tolist()


def test_a_file_that_is_no_image_is_named(folder: Path) -> None:
    path = folder / "train" / "n01" / "n01_1.JPEG"
    path.write_bytes(b"not a picture")

    with pytest.raises(DataError, match=r"n01_1\.JPEG is no image that can be decoded"):
        ImageFolder(folder, "train").whole(0)


def test_an_image_that_is_cut_off_is_named(folder: Path) -> None:
    path = folder / "train" / "n01" / "n01_1.JPEG"
    path.write_bytes(path.read_bytes()[:-60])

    with pytest.raises(DataError, match=r"n01_1\.JPEG is no image that can be decoded"):
        ImageFolder(folder, "train").whole(0)


def test_a_missing_half_is_told(folder: Path) -> None:
    (folder / "val").rename(folder / "validation")

    with pytest.raises(DataError, match="an ImageNet folder has train and val"):
        check(folder)


def test_a_class_of_one_half_alone_is_named(folder: Path) -> None:
    saved(folder / "train" / "n03" / "a.JPEG", np.zeros((9, 9, 3), np.uint8))

    with pytest.raises(DataError, match=r"class n03 is only in .*train; train and val must"):
        check(folder)


def test_a_class_without_images_is_named(folder: Path) -> None:
    for path in (folder / "val" / "n02").iterdir():
        path.unlink()

    with pytest.raises(DataError, match=r"n02 has no image; each class needs files"):
        check(folder)


def test_a_first_image_that_is_broken_is_told_before_a_run(folder: Path) -> None:
    check(folder)
    (folder / "val" / "n01" / "n01_1.JPEG").write_bytes(b"")

    with pytest.raises(DataError, match=r"val/n01/n01_1\.JPEG is no image"):
        check(folder)


def test_without_pillow_one_is_told_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "PIL":
            raise ImportError(name)
        return true(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(DataError, match="pip install pillow"):
        check(folder)
