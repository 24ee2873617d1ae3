"""A table of an archive, one file or a folder of parts; a torn part does not take the others."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from collector.contract.archive import Column
from dashboard.sources.archive.files import Files
from dashboard.trouble import Kind, TroubleError

BATCH_ROWS = 1 << 18
READ_AHEAD = 2
"""Batches; a day of samples must not stand in memory at once."""
MOST_PARTS = 200_000
"""Eleven days of parts of 5 s."""
WORDS = ("metric", "labels", "node", "tags", "optype", "group", "flags", "tag")
"""Columns with few distinct texts, read as dictionaries: they are compared once, not by row."""
FAULTS = (pa.ArrowException, OSError, ValueError)

EDGE_PARTS = 4
"""Newest parts that are looked at for the newest moment: writers close them in turn."""

State = tuple[str, int, int]
"""Name, size and time of change of a part."""
Keep = Callable[[pa.RecordBatch], pa.RecordBatch]


class Table:
    """One table.

    Attributes:
        name: Of its file or folder.
    """

    def __init__(self, files: Files, name: str, columns: Sequence[Column]) -> None:
        self.name = name
        self._files = files
        self._schema = pa.schema([pa.field(each.name, _kind(each)) for each in columns])
        self._torn: dict[State, str] = {}
        self._absent: set[str] = set()
        self._lock = threading.Lock()

    def parts(self) -> list[Path]:
        """Its files, in the order in which they were written; none where there are none."""
        path = self._files.inside(self.name)
        if path is None:
            return []
        try:
            found = sorted(path.glob("*.parquet"))[:MOST_PARTS] if path.is_dir() else [path]
        except OSError:
            return []
        # Names begin with a full stop while a part is being written.
        return [each for each in found if not each.name.startswith(".") and not each.is_symlink()]

    def state(self) -> tuple[int, State | None]:
        """What changes when a part is added: how many there are, and the last one."""
        parts = self.parts()
        return len(parts), _state(parts[-1]) if parts else None

    def missing(self) -> tuple[str, ...]:
        """What was looked for and not found so far, in words."""
        with self._lock:
            torn, absent = list(self._torn.values()), sorted(self._absent)
        words = []
        if torn:
            count = f"{len(torn)} parts" if len(torn) > 1 else "a part"
            words.append(f"{count} of {self.name} cannot be read and is left out: {torn[0]}")
        words += [f"{self.name} has no column {name}" for name in absent]
        return tuple(words)

    def read(
        self, columns: Sequence[str], where: ds.Expression | None = None, keep: Keep | None = None
    ) -> pa.Table:
        """Rows as they were written; a column that is not there is null.

        Args:
            columns: Of the contract.
            where: Rows to read; parts whose statistics rule them out are not opened.
            keep: Chooses rows of a batch that has these columns.

        Raises:
            TroubleError: The files went away.
        """
        schema = pa.schema([self._schema.field(name) for name in columns])
        for _ in range(2):  # the second time without those that were found to be torn
            paths = [path for path in self.parts() if not self._is_torn(path)]
            try:
                return self._dataset(paths, schema, where, keep)
            except FAULTS:
                whole = [part for path in paths if (part := self._alone(path, schema)) is not None]
        tables = [ds.dataset(part).to_table(filter=where) for part in whole]
        try:
            batches = [batch for table in tables for batch in table.to_batches()]
            return _joined(map(keep, batches) if keep else batches, schema)
        except FAULTS as error:
            raise TroubleError(
                Kind.UNREADABLE, f"{self.name} of {self._files.folder} cannot be read: {error}.",
                "Remove it to see the rest.",
            ) from None  # fmt: skip

    def head(self, columns: Sequence[str], rows: int) -> pa.Table:
        """The first rows, in one chunk; none where they cannot be read."""
        schema = pa.schema([self._schema.field(name) for name in columns])
        paths = [str(path) for path in self.parts() if not self._is_torn(path)]
        if not paths:
            return schema.empty_table()
        try:
            words = [name for name in columns if name in WORDS]
            table = ds.dataset(paths, schema=self._schema,
                               format=ds.ParquetFileFormat(dictionary_columns=words))  # fmt: skip
            return table.head(rows, columns=list(columns)).unify_dictionaries().combine_chunks()
        except FAULTS:
            return schema.empty_table()

    def edges(self, column: str) -> tuple[float, float] | None:
        """Lowest and highest value of a column, by the statistics of the first and last parts."""
        found: list[float] = []
        parts = [part for part in self.parts() if not self._is_torn(part)]
        for part in dict.fromkeys([*parts[:1], *parts[-EDGE_PARTS:]]):
            try:
                meta = pq.read_metadata(part)
                place = meta.schema.names.index(column)
                for group in range(meta.num_row_groups):
                    told = meta.row_group(group).column(place).statistics
                    if told is not None and told.has_min_max:
                        found += [float(told.min), float(told.max)]
            except (*FAULTS, TypeError):
                continue
        return (min(found), max(found)) if found else None

    def _dataset(
        self, paths: Sequence[Path], schema: pa.Schema, where: ds.Expression | None,
        keep: Keep | None,
    ) -> pa.Table:  # fmt: skip
        if not paths:
            return schema.empty_table()
        present = set(pq.read_schema(paths[-1]).names)
        with self._lock:
            self._absent |= set(schema.names) - present
        words = [name for name in schema.names if name in WORDS]
        table = ds.dataset(
            [str(path) for path in paths], schema=self._schema,
            format=ds.ParquetFileFormat(dictionary_columns=words),
        )  # fmt: skip
        if keep is None:
            read: pa.Table = table.to_table(schema.names, filter=where)
            return read
        batches = table.to_batches(
            schema.names, filter=where, batch_size=BATCH_ROWS, batch_readahead=READ_AHEAD,
            fragment_readahead=READ_AHEAD,
        )  # fmt: skip
        return _joined(map(keep, batches), schema)

    def _alone(self, path: Path, schema: pa.Schema) -> pa.Table | None:
        """One part, cast to what the contract says; None and a note where it is torn."""
        try:
            table = pq.read_table(path)
            columns = [
                table[field.name].cast(field.type) if field.name in table.column_names
                else pa.nulls(table.num_rows, field.type)
                for field in schema
            ]  # fmt: skip
            return pa.Table.from_arrays(columns, schema=schema)
        except FAULTS as error:
            key = _state(path)
            if key is not None:
                with self._lock:
                    self._torn[key] = f"{path.name} ({str(error).splitlines()[0][:120]})"
            return None

    def _is_torn(self, path: Path) -> bool:
        if not self._torn:
            return False
        return _state(path) in self._torn


def _joined(
    batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch], schema: pa.Schema
) -> pa.Table:
    kept = [batch for batch in batches if batch.num_rows]
    if not kept:
        return schema.empty_table()
    return pa.Table.from_batches(kept).cast(schema)


def _kind(column: Column) -> pa.DataType:
    if column.name in WORDS:
        return pa.dictionary(pa.int32(), pa.string())
    return pa.type_for_alias(column.dtype)


def _state(path: Path) -> State | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return path.name, stat.st_size, stat.st_mtime_ns
