"""Results as CSV, JSON, Parquet, on any storage of fsspec, in Postgres; logs of tf_cnn_benchmarks.

Columns are in the order of the table everywhere. Pushing twice replaces, so a push that was cut off
is simply made again.
"""

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lockstep.bench.results import COLUMNS, arrow_table, columns_of, part_name
from lockstep.bench.spec import AskedError, BenchError, UnreachableError

Row = Mapping[str, Any]
SUFFIXES = (".csv", ".json", ".parquet")
POSTGRES = ("postgresql", "postgres")
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SECRET = re.compile(r"(?i)((?:^|[?&\s])(?:password|passwd|token|secret|sslpassword)=)[^&#\s]*")
_POSTGRES_TYPES = {"string": "text", "int64": "bigint", "double": "double precision",
                   "bool": "boolean"}  # fmt: skip


def as_csv(rows: Sequence[Row]) -> str:
    """A header, then a line a result; lists as JSON, what is unknown is empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    names = columns_of(rows)
    writer.writerow(names)
    writer.writerows([_plain(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def as_json(rows: Sequence[Row]) -> str:
    """`{"columns": [...], "results": [{...}]}`; what is not known is null."""
    names = columns_of(rows)
    results = [{name: row.get(name) for name in names} for row in rows]
    return json.dumps({"columns": names, "results": results}, indent=1, allow_nan=False) + "\n"


def write_export(rows: Sequence[Row], path: Path) -> None:
    """Write the form that the file's name ends in, whole or not at all.

    Raises:
        BenchError: It ends in none of SUFFIXES; UnreachableError, it cannot be written.
    """
    from lockstep.collector.contract.whole_file import write_whole

    if path.suffix not in SUFFIXES:
        raise BenchError(f"{path.name} ends in none of {', '.join(SUFFIXES)}")
    try:
        if path.suffix == ".parquet":
            write_whole(path, _parquet(rows))
        else:
            write_whole(path, as_csv(rows) if path.suffix == ".csv" else as_json(rows))
    except OSError as error:
        raise UnreachableError(f"{path} cannot be written: {error.strerror}") from error


def push(rows: Sequence[Row], url: str, table: str) -> str:
    """Push to a Postgres by its URL, or to storage by one that fsspec knows; where they are now.

    Args:
        table: Name in a Postgres.

    Raises:
        AskedError: It is no URL, or names no place or no table.
        BenchError: It does not answer, refuses, or is not known.
    """
    try:
        scheme = urlsplit(url).scheme
    except ValueError:  # half an IPv6 address
        scheme = ""
    if not scheme:
        raise AskedError(f"{hidden(url)!r} is no URL; give s3://BUCKET/FOLDER or postgresql://...")
    if scheme in POSTGRES:
        to_postgres(rows, url, table)
        return f"table {table} in {hidden(url)}"
    if not url.partition("://")[2].strip("/"):
        raise AskedError(f"{hidden(url)} names no place; give it as s3://BUCKET/FOLDER")
    to_storage(rows, url)
    return hidden(url)


def to_storage(rows: Sequence[Row], url: str) -> None:
    """One part a result, as in a table on disk: DuckDB reads them there.

    Credentials and endpoint are those of the environment, as AWS_ENDPOINT_URL.

    Raises:
        BenchError: As `push`.
    """
    import fsspec

    try:
        files, folder = fsspec.core.url_to_fs(url)
        files.makedirs(folder, exist_ok=True)
        for row in rows:
            files.pipe_file(f"{folder.rstrip('/')}/{part_name(row)}", _parquet([row]))
    except ImportError as error:
        raise BenchError(
            f"{urlsplit(url).scheme}:// needs a package that is not here: {error}"
        ) from (error)
    except Exception as error:  # every storage has errors of its own
        raise BenchError(f"{hidden(url)} cannot be written: {_first_line(error)}") from error


def to_postgres(rows: Sequence[Row], url: str, table: str) -> None:
    """Rows into a table, which is made or given the columns it lacks; in one transaction.

    Raises:
        BenchError: As `push`.
    """
    from adbc_driver_postgresql import dbapi

    if not _IDENTIFIER.fullmatch(table):
        raise AskedError(f"{table!r} is no name of a table; small letters, digits, underscores")
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    names = columns_of(rows)
    types = {column.name: _POSTGRES_TYPES.get(column.dtype, "text") for column in COLUMNS}
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
    try:
        with dbapi.connect(url) as connection, connection.cursor() as cursor:
            about = ", ".join(f"{quoted[name]} {types.get(name, 'double precision')}"
                              for name in names)  # fmt: skip
            cursor.execute(f'CREATE TABLE IF NOT EXISTS "{table}" ({about})')
            for name in names:
                cursor.execute(f'ALTER TABLE "{table}" ADD COLUMN IF NOT EXISTS {quoted[name]}'
                               f" {types.get(name, 'double precision')}")  # fmt: skip
            # Of two that push the same, the second waits and replaces.
            cursor.execute(f'LOCK TABLE "{table}" IN SHARE ROW EXCLUSIVE MODE')
            for row in plain:
                cursor.execute(
                    f'DELETE FROM "{table}" WHERE bench = $1 AND cell = $2'  # noqa: S608
                    " AND repeat IS NOT DISTINCT FROM $3",
                    (row["bench"], row["cell"], row.get("repeat")),
                )
            cursor.adbc_ingest(table, arrow_table(plain, lists=False), mode="append")
            connection.commit()
    except dbapi.Error as error:
        raise BenchError(f"{hidden(url)} refuses: {_first_line(error)}") from error


def hidden(url: str) -> str:
    """A URL, or a sentence with one, without its passwords: rather too much is hidden."""
    url = re.sub(r"(://[^/@:]*):.*@", r"\1:***@", url)
    return _SECRET.sub(r"\1***", url)


def _first_line(error: Exception) -> str:
    return hidden(str(error).strip().partition("\n")[0][:300]) or type(error).__name__


def _parquet(rows: Sequence[Row]) -> bytes:
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(arrow_table(rows), sink)
    return sink.getvalue()


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value


# A log of tf_cnn_benchmarks -> the 14 keys that Kubebench's reports had.
#
# The program (github.com/tensorflow/benchmarks, scripts/tf_cnn_benchmarks) prints its settings as
# `Name: value` before the first step, and `total images/sec` at its end.

MAX_BYTES = 64 << 20
LINES = {
    "TensorFlow": "tensorflow", "Model": "model", "Dataset": "dataset", "Mode": "mode",
    "SingleSess": "singlesess", "Batch size": "batch_size", "Num batches": "num_batches",
    "Num epochs": "num_epochs", "Data format": "data_format",
    "Layout optimizer": "layout_optimizer", "Optimizer": "optimizer", "Variables": "variables",
    "Sync": "sync", "total images/sec": "total_images/sec",
}  # fmt: skip
"""What a line begins with -> the key."""
KEYS = ("total_images/sec", *(key for key in LINES.values() if key != "total_images/sec"))
SPEED = KEYS[0]
_LINE = re.compile(rf"^\s*({'|'.join(map(re.escape, LINES))}):\s*(\S.*?)\s*$")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?(?=\s|$)", re.ASCII)
"""`64 global` is 64; `1.13.1` of a version is none."""
Value = str | float


def parsed(text: str) -> dict[str, Value]:
    """The keys that the log tells, in the order of KEYS; a line that comes again counts last.

    Raises:
        BenchError: It tells no `total images/sec`: it is another program's, or was cut off.
    """
    told: dict[str, Value] = {}
    for line in text.splitlines():
        if found := _LINE.match(line):
            told[LINES[found[1]]] = _value(LINES[found[1]], found[2])
    speed = told.get(SPEED)
    if speed is None:
        raise BenchError("no line `total images/sec`: no log of tf_cnn_benchmarks, or not whole")
    if not isinstance(speed, float):
        raise BenchError(f"total images/sec is {speed!r}; it must be a number")
    return {key: told[key] for key in KEYS if key in told}


def numbers(columns: dict[str, Value]) -> dict[str, float]:
    """What can be a column of a result, under names without a slash."""
    return {
        key.replace("/", "_per_"): value
        for key, value in columns.items()
        if isinstance(value, float)
    }


def read(log: Path) -> dict[str, Value]:
    """The same of a file.

    Raises:
        BenchError: It cannot be read, or is none.
    """
    try:
        with log.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BenchError(f"{log} cannot be read: {error.strerror}") from error
    if len(text) > MAX_BYTES:
        raise BenchError(f"{log} has more than {MAX_BYTES >> 20} MiB, which no such log has")
    try:
        return parsed(text.decode("utf-8", "replace"))
    except BenchError as error:
        raise BenchError(f"{log}: {error}") from None


def _value(key: str, text: str) -> Value:
    if key == "tensorflow":  # a version, though 1.13 looks like a number
        return text
    found = _NUMBER.match(text)
    value = float(found[0]) if found else math.inf
    return value if math.isfinite(value) else text
