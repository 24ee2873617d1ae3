"""LIBSVM files as folders of rows, each converted once and kept for later runs.

They are kept in LOCKSTEP_CACHE_DIR, by default $XDG_CACHE_HOME/lockstep or ~/.cache/lockstep: a
run's own folder is in shared memory, and beside the user's data nothing is written. Epsilon takes
4 GB there; removing the folder is safe while no run uses it.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.workloads.data import libsvm
from lockstep.workloads.data.libsvm import OPENERS, LibsvmError
from lockstep.workloads.data.row_files import (
    INDEX,
    Features,
    Labels,
    about,
    write_index,
    write_split,
)

VERSION = 1


def validation_file(train: Path) -> Path:
    """The file to validate on, named as on the LIBSVM site: `NAME.t` beside `NAME`.

    Raises:
        LibsvmError: There is none.
    """
    name = train.name.removesuffix(train.suffix) if train.suffix in OPENERS else train.name
    candidates = [train.with_name(f"{name}.t{end}") for end in ("", *OPENERS)]
    present = next((path for path in candidates if path.is_file()), None)
    if present is None:
        raise LibsvmError(
            f"{train} has no file to validate on; put {candidates[0].name} (or .bz2, .gz, .xz)"
            " beside it"
        )
    return present


def look_at(train: Path, features: int) -> None:
    """Read the first rows of both files, before anything starts.

    Raises:
        LibsvmError: One of them is wrong, or there is no file to validate on.
    """
    next(libsvm.blocks(train, features))
    next(libsvm.blocks(validation_file(train), features))


def converted(train: Path, features: int, cache: Path) -> Path:
    """The folder of rows (rows.Rows) of a file and the one to validate on.

    Raises:
        LibsvmError: A file is wrong, or the cache has no room.
        OSError: The cache cannot be written.
    """
    files, folder = _place(train, features, cache)
    if (folder / INDEX).exists():
        return folder
    making = folder.with_name(f"{folder.name}.{os.getpid()}.new")
    making.mkdir(parents=True)
    try:
        zeros: list[Path] = []
        rows = {
            split: write_split(making, split, _dense(path, features, zeros))
            for split, path in files.items()
        }
        facts: dict[str, Any] = {"data": str(train), "validation": str(files["validation"])}
        facts |= {f"{split}_rows": count for split, count in rows.items()}
        if zeros:
            facts["labels"] = "0 and 1, taken as -1 and +1"
        write_index(making, rows=rows, features=features, about=facts)
        _publish(making, folder)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise LibsvmError(
            f"{cache} has no room for {train} as {4 * features} bytes a row; name another folder"
            " in LOCKSTEP_CACHE_DIR"
        ) from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def describe_files(train: Path, features: int, cache: Path) -> dict[str, Any]:
    """What is known of the files, as JSON types: more once they are converted.

    Raises:
        LibsvmError: There is no file to validate on.
    """
    files, folder = _place(train, features, cache)
    if (folder / INDEX).exists():
        return {**about(folder)["about"], "converted": str(folder)}
    return {"data": str(train), "validation": str(files["validation"])}


def cache_folder(environment: dict[str, str] | os._Environ[str] = os.environ) -> Path:
    """Where converted files are kept."""
    if named := environment.get("LOCKSTEP_CACHE_DIR"):
        return Path(named)
    home = environment.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "lockstep"


def _dense(path: Path, features: int, zeros: list[Path]) -> Iterator[tuple[Features, Labels]]:
    """Rows and labels, 0 or 1; a file that has the labels 0 and 1 itself is added to `zeros`."""
    for block in libsvm.blocks(path, features):
        if path not in zeros and (block.labels == 0).any():
            zeros.append(path)
        yield block.dense(features), (block.labels > 0).astype(np.int8)


def _place(train: Path, features: int, cache: Path) -> tuple[dict[str, Path], Path]:
    """The files by split, and the folder of their rows."""
    files = {"train": train, "validation": validation_file(train)}
    return files, cache / "libsvm" / _key(files, features)


def _key(files: dict[str, Path], features: int) -> str:
    """The same while the files are the same, by name, size and time of change."""
    parts = [f"{VERSION} {features}"]
    for path in files.values():
        facts = path.stat()
        parts.append(f"{path.resolve()} {facts.st_size} {facts.st_mtime_ns}")
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def _publish(making: Path, folder: Path) -> None:
    try:
        making.rename(folder)
    except OSError:
        if not (folder / INDEX).exists():  # another run was faster with the same rows
            raise
