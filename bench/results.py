"""The table of results: a folder of Parquet parts, one a cell, that many write at the same time.

    results.write(Path("results.parquet"), {"bench": "nightly", "cell": "gpt", "nodes": 2})
    rows = results.read(Path("results.parquet"))

A part is written under a temporary name and renamed: a reader sees whole parts, and a writer that
is killed leaves none. The part's name comes from bench, cell and repeat, so that a cell that is
written again replaces itself. DuckDB reads the same folder:
`SELECT * FROM read_parquet('results.parquet/*.parquet', union_by_name = true)`.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.collector.contract.archive import Column
from lockstep.collector.contract.whole_file import replacing
from lockstep.collector.contract.words import PHASES

if TYPE_CHECKING:
    import pyarrow as pa


# The columns of a result, in their order; what a workload measures beside them follows by name.

Value = str | int | float | bool | None | list[str] | list[float]
"""Of a cell of the table; None = not known."""
METRIC_PREFIX = "metric_"
"""Of columns that a workload brings: its goal's metric, a bandwidth, what a step of yours wrote."""

COLUMNS: tuple[Column, ...] = (
    Column("bench", "string", "", "name of the benchmark"),
    Column("cell", "string", "", "which cell of its matrix"),
    Column("repeat", "int64", "", "of the same cell, from 0"),
    Column("status", "string", "", "finished, failed, timeout or stopped"),
    Column("run", "string", "", "run id; null = none was started"),
    Column("archive", "string", "", "where its archive lies"),
    Column("started", "string", "", "UTC, ISO 8601"),
    Column("ended", "string", "", "likewise"),
    Column("queued_seconds", "double", "seconds", "it waited in --queue; null = in none"),
    # The workload: what must be the same for two results to be compared.
    Column("workload", "string", "", "gpt, resnet, logreg, allreduce, or exec"),
    Column("settings", "string", "", "all else that was asked for, as JSON with sorted keys"),
    Column("launcher", "string", "", "local, mpirun, kubernetes or argo"),
    Column("nodes", "int64", "", "how many"),
    Column("ranks", "int64", "", "of all nodes"),
    Column("dp", "int64", "", "data-parallel size"),
    Column("tp", "int64", "", "tensor-parallel size"),
    Column("pp", "int64", "", "pipeline stages"),
    Column("seed", "int64", "", "of weights, data and noise"),
    Column("emulated_devices", "bool", "", "whether devices were emulated"),
    Column("simulated", "list<string>", "", "what of the telemetry was simulated"),
    # How fast.
    Column("steps", "int64", "", "that were measured, those that are slow by design left out"),
    Column("step_seconds", "double", "seconds", "median over steps of the median over ranks"),
    Column("step_seconds_error", "double", "seconds", "standard error of that, by blocks of steps"),
    Column("samples_per_second", "double", "", "of all ranks"),
    Column("tokens_per_second", "double", "", "of all ranks"),
    Column("flops_per_second", "double", "", "model FLOPs of all ranks"),
    Column("wall_seconds", "double", "seconds", "from the first step's start to the last end"),
    Column("gpu_hours", "double", "hours", "wall time times ranks"),
    *(
        Column(f"{phase}_seconds", "double", "seconds", f"phase {phase} in a step, mean over ranks")
        for phase in PHASES
    ),
    Column("computation_share", "double", "", "own time over the step, mean over ranks"),
    Column("communication_share", "double", "", "the rest of the step; 0 with one rank"),
    Column("rank_own_seconds", "list<double>", "seconds", "median own time in a step, by rank"),
    Column("rank_own_error", "list<double>", "seconds", "standard error of each, likewise"),
    Column("rank_nodes", "list<string>", "", "node of each rank"),
    # How well.
    Column("loss", "double", "nats", "training loss of the last step"),
    Column("goal", "string", "", "as METRIC>=VALUE; null = none was set"),
    Column("time_to_goal_seconds", "double", "seconds", "of training; null = not reached"),
    # What was found.
    Column("verdict", "string", "", "healthy, degraded or unknown"),
    Column("sentence", "string", "", "the verdict in words"),
    Column("culprits", "list<string>", "", "slow by their own doing, as `rank 2: thermal`"),
    Column("reason", "string", "", "why it did not finish; null = it did"),
    Column("failed_ranks", "list<string>", "", "as `rank 3 on node-1`"),
    Column("last_lines", "string", "", "of the log of the first of them"),
    # On what.
    Column("hardware", "string", "", "GPU model, or CPU model and cores; several joined by commas"),
    Column("driver", "string", "", "GPU driver"),
    Column("cuda", "string", "", "API version of the driver"),
    Column("vbios", "string", "", "of the GPUs"),
    Column("gpu_firmware", "string", "", "as GPUs report it"),
    Column("nic_firmware", "string", "", "of InfiniBand and RoCE cards"),
    Column("nccl", "string", "", "as torch was built with, or as NCCL_VERSION says"),
    Column("kernel", "string", "", "of the nodes"),
    Column("torch", "string", "", "version"),
    Column("python", "string", "", "version"),
    Column("lockstep", "string", "", "version"),
    Column("image", "string", "", "as it was asked for"),
    Column("image_digest", "string", "", "as the cluster pulled it, or LOCKSTEP_IMAGE_DIGEST"),
    Column("commit", "string", "", "of the code beside the SPEC; -dirty: files differ from it"),
    Column("node_names", "list<string>", "", "where it ran"),
    Column("rank_versions", "string", "", "versions that differ between ranks, as JSON"),
)  # fmt: skip

VERSIONS: tuple[str, ...] = (
    "driver", "cuda", "vbios", "gpu_firmware", "nic_firmware", "nccl", "kernel", "torch", "python",
    "lockstep", "image", "image_digest", "commit",
)  # fmt: skip
"""Columns of software, in the order in which one suspects them."""


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
    with replacing(part, sync=True) as file:
        pq.write_table(table, file)
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
