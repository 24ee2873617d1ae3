"""Rows into the table and out of it."""

import contextlib
import hashlib
import math
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.bench.results.columns import COLUMNS, METRIC_PREFIX, Value

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIX = ".parquet"
UNFINISHED = ".new"
"""Of a part that is being written; its writer may have been killed."""
KEY = ("bench", "cell", "repeat")
"""What tells one result from another; a second one of the same replaces the first."""
_TYPES = {
    "string": "string", "int64": "int64", "double": "float64", "bool": "bool_",
}  # fmt: skip
_NAMES = tuple(column.name for column in COLUMNS)


class ResultError(ValueError):
    """A result, or a part of the table, is not what it should be; says which, and how."""


def write(folder: Path, row: Mapping[str, Value]) -> Path:
    """Add one result, or replace the one of the same bench, cell and repeat.

    Args:
        folder: The table; it is made where it is not there.
        row: Columns of COLUMNS, and `metric_<name>` with a number or null; what is left out is
            null.

    Returns:
        The part.

    Raises:
        ResultError: A column is none, or holds something else than it should.
        OSError: The part cannot be written; the table is as it was.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([checked(row)], schema=_schema(row))
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / part_name(row)
    temporary = part.with_name(f".{part.stem}.{secrets.token_hex(8)}{UNFINISHED}")
    try:
        with temporary.open("xb") as file:
            pq.write_table(table, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(part)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return part


def has_finished(folder: Path, row: Mapping[str, Value]) -> bool:
    """Whether the table has a finished result of the same bench, cell and repeat."""
    part = folder / part_name(row)
    return part.is_file() and any(each.get("status") == "finished" for each in _rows(part))


def read(*tables: Path) -> list[dict[str, Value]]:
    """Every result, those of one benchmark together, in the order of cell and repeat.

    Columns are in the order of COLUMNS, then metrics by name; every row has every column.

    Args:
        tables: Folders, or single parts.

    Raises:
        ResultError: One is not there, or a part cannot be read.
    """
    parts = [part for table in tables for part in _parts(table)]
    rows = [row for part in parts for row in _rows(part)]
    names = columns_of(rows)
    told: list[dict[str, Value]] = [{name: row.get(name) for name in names} for row in rows]
    return sorted(told, key=_order)


def columns_of(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns of COLUMNS, then every other that some row has, by name."""
    others = {name for row in rows for name in row} - set(_NAMES)
    return (*_NAMES, *sorted(others))


def arrow_table(rows: Iterable[Mapping[str, Value]], *, lists: bool = True) -> "pa.Table":
    """The rows as one Arrow table, with the columns of `columns_of`.

    Args:
        lists: Whether columns may be lists; else they are texts, as rows then must have them.
    """
    import pyarrow as pa

    rows = list(rows)
    whole = {name: next((row[name] for row in rows if name in row), None)
             for name in columns_of(rows)}  # fmt: skip
    return pa.Table.from_pylist([dict(row) for row in rows], schema=_schema(whole, lists=lists))


def _order(row: Mapping[str, Any]) -> tuple[str, str, int, str]:
    return (row["bench"] or "", row["cell"] or "", row["repeat"] or 0, row["run"] or "")


def _parts(table: Path) -> list[Path]:
    if table.is_file():
        return [table]
    if not table.is_dir():
        raise ResultError(f"{table} is no table of results; `lockstep bench run` makes one")
    return sorted(
        each for each in table.iterdir()
        if each.name.endswith(SUFFIX) and not each.name.startswith(".")
    )  # fmt: skip


def _rows(part: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with part.open("rb") as file:
            table = pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ResultError(f"{part} cannot be read as Parquet: {error}") from error
    wrong = [name for name in table.column_names
             if name not in _NAMES and not name.startswith(METRIC_PREFIX)]  # fmt: skip
    if wrong or not {"bench", "cell"} <= set(table.column_names):
        raise ResultError(f"{part} is no part of a table of results: it has a column {wrong[:1]}")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def part_name(row: Mapping[str, Value]) -> str:
    """Of the part of a result: the same whenever it is written again."""
    key = "\0".join(str(row.get(name)) for name in KEY)
    words = "".join(each if each.isalnum() or each in "-=" else "-" for each in str(row["cell"]))
    return f"{words[:60]}-{hashlib.sha256(key.encode()).hexdigest()[:16]}{SUFFIX}"


def _schema(row: Mapping[str, Value], *, lists: bool = True) -> "pa.Schema":
    import pyarrow as pa

    def arrow(dtype: str) -> "pa.DataType":
        inner = dtype.removeprefix("list<").removesuffix(">")
        plain = getattr(pa, _TYPES[inner])()
        if inner == dtype:
            return plain
        return pa.list_(plain) if lists else pa.string()

    own = [(column.name, arrow(column.dtype)) for column in COLUMNS]
    metrics = sorted(name for name in row if name.startswith(METRIC_PREFIX))
    return pa.schema([*own, *((name, pa.float64()) for name in metrics)])


def checked(row: Mapping[str, Value]) -> dict[str, Value]:
    """The row, with every column, each of its type.

    Raises:
        ResultError: As `write`.
    """
    for name in ("bench", "cell"):
        if not isinstance(row.get(name), str) or not row[name]:
            raise ResultError(f"a result needs a {name}")
    types = {column.name: column.dtype for column in COLUMNS}
    for name, value in row.items():
        is_metric = name.startswith(METRIC_PREFIX) and name != METRIC_PREFIX
        if name not in types and not is_metric:
            raise ResultError(
                f"a result has no column {name!r}; what you measure is called {METRIC_PREFIX}NAME"
            )
        dtype = types.get(name, "double")
        if value is not None and not _is(dtype, value):
            raise ResultError(f"column {name} is {value!r:.80}; it must be {dtype}, or null")
    return {name: row.get(name) for name in (*_NAMES, *(set(row) - set(_NAMES)))}


def _is(dtype: str, value: object) -> bool:
    if dtype.startswith("list<"):
        inner = dtype.removeprefix("list<").removesuffix(">")
        return isinstance(value, list) and all(_is(inner, each) for each in value)
    if dtype == "string":
        return isinstance(value, str)
    if dtype == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if dtype == "int64":
        return isinstance(value, int) and abs(value) < 2**63
    # Not NaN nor infinity: JSON has neither, and null already says that nothing is known.
    return isinstance(value, int | float) and math.isfinite(value)
