"""The parts of a table as files: which there are, whether they changed, what rows they have."""

import errno
import os
import stat as modes
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

MOST_PARTS = 200_000
"""Eleven days of parts of 5 s; what comes after them is left out, and that is reported."""
MAGIC = b"PAR1"
"""First and last four bytes. SOURCE: Parquet format, "File format"."""
LEAST_BYTES = 12
"""Both and the length of the footer."""

State = tuple[str, int, int]
"""Name, size and time of change of a part."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The parts of a table.

    Attributes:
        folder: Where they lie, or the one file.
        names: In the order in which they were written; empty for the one file.
        stamp: Another one where the folder or one of the newest parts was replaced.
    """

    folder: Path
    names: tuple[str, ...]
    stamp: tuple[object, ...]


def names(path: Path, *, links: bool = False) -> list[str]:
    """The parts in a folder; their names begin with a full stop while they are being written.

    Of a file one that is empty, so that the file is `path / name`.

    Args:
        path: Folder or file.
        links: Whether symbolic links count as parts.
    """
    try:
        with os.scandir(path) as entries:
            return sorted(
                each.name for each in entries
                if each.name.endswith(".parquet") and not each.name.startswith(".")
                and (links or not each.is_symlink()) and each.is_file()
            )  # fmt: skip
    except NotADirectoryError:
        return [""] if path.is_file() else []  # a pipe would be waited for
    except OSError:
        return []


def state(path: Path) -> State | None:
    """Of a part; None where it is gone."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return path.name, stat.st_size, stat.st_mtime_ns


def opened(path: Path) -> BinaryIO:
    """A part, for reading; a pipe in its place is not waited for.

    Raises:
        OSError: It is no regular file, or cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not modes.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return os.fdopen(handle, "rb")


def is_cut(path: Path) -> bool:
    """Whether a part was cut off while it was written; False where it cannot be opened."""
    try:
        with opened(path) as file:
            if file.seek(0, 2) < LEAST_BYTES:
                return True
            file.seek(-len(MAGIC), 2)
            return file.read(len(MAGIC)) != MAGIC
    except OSError:
        return False


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """With the columns of a schema; one that is not there is null."""
    if table.schema.equals(schema):
        return table
    columns = [
        table[field.name].cast(field.type) if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=schema)


def whole(table: pa.Table) -> pa.Table:
    """In one chunk, with one dictionary a column."""
    return table.unify_dictionaries().combine_chunks()


def release() -> None:
    """Gives back what Arrow keeps for the next time: after a day of samples, 100 MB."""
    pa.default_memory_pool().release_unused()
