"""Files of rows of features with a label of two classes, which every rank maps into memory.

A folder of our own format: for `train` and `validation` a file of labels (one byte, 0 or 1) and
one of float32 numbers, row after row; `rows.json` tells the sizes and is written last, so that
half a folder is never read. Where there is a `basis`, a row is stored as its coordinates in it:
synthetic rows of 2000 numbers then take the memory of 100.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.whole_file import write_whole
from lockstep.workloads.spec import DataError

INDEX = "rows.json"
SPLITS = ("train", "validation")

Features = NDArray[np.float32]
Labels = NDArray[np.int8]


def write_split(folder: Path, split: str, blocks: Iterable[tuple[Features, Labels]]) -> int:
    """Write numbers (n, width) and labels (n,), 0 or 1, block after block; returns the rows.

    Raises:
        OSError: The files cannot be written.
    """
    count = 0
    with (folder / f"{split}.f32").open("wb") as rows, (folder / f"{split}.labels").open("wb") as y:
        for numbers, labels in blocks:
            rows.write(np.ascontiguousarray(numbers, dtype=np.float32).data)
            y.write(np.ascontiguousarray(labels, dtype=np.int8).data)
            count += len(labels)
    return count


def write_index(
    folder: Path, *, rows: dict[str, int], features: int, basis: Features | None = None,
    **more: Any,
) -> None:  # fmt: skip
    """Write what makes a folder whole, after its splits.

    Args:
        basis: (width, features), where rows were written as coordinates in it.
        more: Facts for `about`, as JSON types.

    Raises:
        OSError: It cannot be written.
    """
    if basis is not None:
        (folder / "basis.f32").write_bytes(basis.astype(np.float32).tobytes())
    width = features if basis is None else len(basis)
    index = {"rows": rows, "features": features, "width": width, "basis": basis is not None}
    write_whole(folder / INDEX, json.dumps({**index, **more}, indent=1), mode=None)


def about(folder: Path) -> dict[str, Any]:
    """What `write_index` was told.

    Raises:
        DataError: The folder is not whole.
    """
    try:
        index: dict[str, Any] = bounded_json.read(folder / INDEX)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} is no folder of rows: {INDEX} cannot be read: {error}") from None
    return index


def mapped(path: Path, kind: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """A file as an array that nobody can write to.

    Raises:
        DataError: It is missing or has another size.
    """
    wanted = kind.itemsize * int(np.prod(shape))
    size = path.stat().st_size if path.exists() else 0
    if size != wanted:
        raise DataError(f"{path} has {size} bytes; {INDEX} says {wanted}; remove the folder")
    return np.memmap(path, dtype=kind, mode="r", shape=shape)
