"""ImageNet as a folder: train/CLASS/*.JPEG and val/CLASS/*.JPEG, classes in the order of names.

The layout of torchvision's ImageFolder, and its sizes and crops for ResNet (references/
classification): a random part of 8 to 100 % of the area, or the middle 224 of 256 pixels.
Decoding takes Pillow, which is imported when the first image is. torchvision's own draw from one
generator of torch's: here (seed, epoch, image) decide, whichever ranks there are.
"""

import math
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lockstep.workloads.data.images import Statistics, mirrored
from lockstep.workloads.spec import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 224
RESIZED = 256
"""Pixels of the shorter side before the middle is cut out to validate."""
ENDINGS = frozenset({".jpeg", ".jpg", ".png"})
LEAST_AREA = 0.08
MOST_STRETCHED = 4 / 3
TRIALS = 10
"""Random parts that may reach over the edge, before the middle is taken."""
STATISTICS = Statistics((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""As torchvision's."""


class ImageFolder:
    """The images of one half, `train` or `val`.

    Attributes:
        labels: Class of each image, int64.

    Raises:
        DataError: A folder is missing or empty.
    """

    statistics = STATISTICS

    def __init__(self, folder: Path, half: str, side: int = SIDE) -> None:
        self.side = side
        self._paths: list[Path] = []
        labels: list[int] = []
        for label, name in enumerate(classes(folder, half)):
            paths = sorted(p for p in (folder / half / name).iterdir() if _is_image(p))
            if not paths:
                raise DataError(
                    f"{folder / half / name} has no image; each class needs files that end in"
                    f" {', '.join(sorted(ENDINGS))}"
                )
            self._paths += paths
            labels += [label] * len(paths)
        self.labels = np.array(labels, dtype=np.int64)

    def __len__(self) -> int:
        """Number of images."""
        return len(self._paths)

    def whole(self, index: int) -> NDArray[np.uint8]:
        """The middle of an image, (side, side, 3)."""
        image = self._decoded(index)
        scale = self.side * RESIZED / SIDE / min(image.size)
        cut = self.side / scale
        left, top = ((length - cut) / 2 for length in image.size)
        return _scaled(image, (left, top, left + cut, top + cut), self.side)

    def varied(self, index: int, dice: np.random.Generator) -> NDArray[np.uint8]:
        """A random part of an image, perhaps mirrored, (side, side, 3)."""
        image = self._decoded(index)
        return mirrored(_scaled(image, random_part(*image.size, dice), self.side), dice)

    def _decoded(self, index: int) -> "Image":
        pillow = _pillow()
        try:
            with pillow.open(self._paths[index]) as image:
                rgb: Image = image.convert("RGB")
        except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
            raise DataError(
                f"{self._paths[index]} is no image that can be decoded: {error}"
            ) from error
        return rgb


def classes(folder: Path, half: str) -> list[str]:
    """Names of the classes of one half, sorted.

    Raises:
        DataError: There is none.
    """
    try:
        names = sorted(path.name for path in (folder / half).iterdir() if path.is_dir())
    except OSError as error:
        raise DataError(
            f"cannot read {folder / half}: {error.strerror}; an ImageNet folder has train and val"
            " with a folder for each class"
        ) from error
    if not names:
        raise DataError(f"{folder / half} has no folder; it must have one for each class")
    return names


def check(folder: Path) -> None:
    """Look at the user's folder before a run, and at the first image of each half.

    Raises:
        DataError: A half is missing, the halves have different classes, or Pillow is missing.
    """
    _pillow()
    train, val = (classes(folder, half) for half in ("train", "val"))
    if odd := sorted(set(train) ^ set(val)):
        half = "train" if odd[0] in train else "val"
        raise DataError(
            f"class {odd[0]} is only in {folder / half}; train and val must have the same classes"
        )
    for half in ("train", "val"):
        ImageFolder(folder, half).whole(0)


def random_part(
    width: int, height: int, dice: np.random.Generator
) -> tuple[float, float, float, float]:
    """(left, top, right, bottom) of a random part of an image, in pixels.

    Szegedy et al. 2014 (arXiv 1409.4842), section 6: an even share of the area from 8 % to all,
    and a shape from 3/4 to 4/3 that is even on a logarithmic scale, as torchvision's.
    """
    most = math.log(MOST_STRETCHED)
    for _ in range(TRIALS):
        area = width * height * dice.uniform(LEAST_AREA, 1)
        shape = math.exp(dice.uniform(-most, most))
        across, down = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < across <= width and 0 < down <= height:
            left = int(dice.integers(0, width - across + 1))
            top = int(dice.integers(0, height - down + 1))
            return left, top, left + across, top + down
    across = min(width, round(height * MOST_STRETCHED))
    down = min(height, round(width * MOST_STRETCHED))
    left, top = (width - across) // 2, (height - down) // 2
    return left, top, left + across, top + down


def _scaled(image: "Image", box: tuple[float, float, float, float], side: int) -> NDArray[np.uint8]:
    """A part of an image in (side, side, 3)."""
    resized = image.resize((side, side), _pillow().Resampling.BILINEAR, box=box)
    return np.asarray(resized)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def _pillow() -> ModuleType:
    """Pillow's module Image."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError("images are decoded by Pillow: pip install pillow") from error
    return Image
