"""A table of an archive, one file or a folder of parts, as columns and windows of time.

Nobody has to hold all of it: `batches` and `pieces` give some rows at a time, of the columns that
are asked for, and parts and row groups outside a window are not read.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from lockstep.analyzer.read.archive.files import ArchiveError, Files, Problem
from lockstep.analyzer.read.archive.parts import (
    MOST_PARTS,
    Listed,
    State,
    fitted,
    is_cut,
    opened,
    release,
    whole,
)
from lockstep.analyzer.read.archive.parts import names as names_of
from lockstep.analyzer.read.archive.parts import state as state_of
from lockstep.analyzer.shapes.run import LoadError, Span
from lockstep.collector.contract import archive
from lockstep.collector.contract.archive import Column

BATCH_ROWS = 1 << 18
PIECE_ROWS = 1 << 16
READ_AHEAD = 2
"""Batches; a day of samples must not stand in memory at once."""
WORDS = ("metric", "labels", "node", "tags", "optype", "group", "flags", "tag")
"""Columns with few distinct texts, read as dictionaries: they are compared once, not by row."""
FAULTS = (pa.ArrowException, OSError, ValueError, LookupError)
WHEN: Mapping[str, tuple[str, float]] = {
    archive.SAMPLES_FILE: ("time", 1.0), archive.STEPS_FILE: ("start", 1.0),
    archive.OPS_FILE: ("start_ns", 1e9),
}  # fmt: skip
"""Table -> the column that says when, and its units in a second."""

EDGE_PARTS = 4
"""Newest parts that are looked at for the newest moment: writers close them in turn."""
HEAD_PARTS = 64
"""Oldest parts of which the first rows are taken."""
SMALL_BYTES = 4 << 20
"""Of a part that is read whole; a larger one is read by batches."""

Keep = Callable[[pa.RecordBatch], pa.RecordBatch]


class Table:
    """One table.

    Args:
        files: Of the archive.
        name: Of its file or folder.
        columns: Of the contract.
        strict: Whether a part that is torn, lacks a column or has one of another type is an error;
            else it does not take the others, and `missing` reports it.
        words: Columns that are read as dictionaries.
    """

    def __init__(
        self, files: Files, name: str, columns: Sequence[Column], *, strict: bool = False,
        words: Sequence[str] = WORDS,
    ) -> None:  # fmt: skip
        self.name = name
        self._files = files
        self._strict = strict
        self._words = frozenset(words)
        self._added = frozenset(each.name for each in columns if each.added)
        self._schema = pa.schema([pa.field(each.name, self._kind(each)) for each in columns])
        self._torn: dict[State, str] = {}
        self._absent: set[str] = set()
        self._looked: set[str] = set()
        self._beyond = 0
        self._lock = threading.Lock()

    def parts(self) -> list[Path]:
        """Its files, in the order in which they were written; none where there are none."""
        path = self._files.inside(self.name)
        if path is None:
            return []
        if self._strict and not (path.is_dir() or path.is_file()):
            raise LoadError(f"{path} is no regular file; remove it to read the rest")
        return [path / name for name in self._names(path)]

    @property
    def grows(self) -> bool:
        """Whether it is a folder of parts: a file is written once."""
        path = self._files.inside(self.name)
        return path is not None and path.is_dir()

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """Of some columns, as the contract says."""
        return pa.schema([self._schema.field(name) for name in columns])

    def listed(self) -> Listed:
        """Its parts by name: cheap, for it is asked for at every look."""
        path = self._files.inside(self.name)
        names = [] if path is None else self._names(path)
        if path is None or not names:
            return Listed(Path(), (), ())
        # Closed parts do not change: only the newest are looked at.
        edge = tuple(state_of(path / name) for name in names[-EDGE_PARTS:])
        return Listed(path, tuple(names), (path.stat().st_ino, edge))

    def state(self) -> tuple[int, State | None]:
        """What changes when a part is added: how many there are, and the last one."""
        listed = self.listed()
        last = state_of(listed.folder / listed.names[-1]) if listed.names else None
        return len(listed.names), last

    def look(self) -> None:
        """Notes the parts that were cut off, without reading them; each part is looked at once."""
        listed = self.listed()
        for name in listed.names:
            if name and name in self._looked:
                continue
            path = listed.folder / name
            self._looked.add(name)
            if is_cut(path):
                self._note(path, ValueError("its end is missing"))

    def missing(self) -> tuple[str, ...]:
        """What was looked for and not found so far, in words."""
        with self._lock:
            told, absent = dict(self._torn), sorted(self._absent)
        folder = self.listed().folder if told else Path()
        # One that is whole by now, or gone, is not reported.
        torn = [words for state, words in told.items()
                if state in (state_of(folder / state[0]), state_of(folder))]  # fmt: skip
        words = []
        if torn:
            count = f"{len(torn)} parts" if len(torn) > 1 else "a part"
            words.append(f"{count} of {self.name} cannot be read and is left out: {torn[0]}")
        words += [f"{self.name} has no column {name}" for name in absent]
        if self._beyond:
            words.append(
                f"{self.name} has over {MOST_PARTS} parts: the last {self._beyond} are not read"
            )
        return tuple(words)

    def pieces(self, path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
        """The rows of one part; one that is torn gives none, or no more, and is noted.

        As cheap as can be: of a day there are 17,280 parts.

        Args:
            path: Of the part.
            schema: Of the columns that are read, as `schema` gives it.

        Raises:
            LoadError: Of a strict table, the part is torn or of another kind.
        """
        words = [name for name in schema.names if name in self._words]
        try:
            with opened(path) as raw:
                content = raw.read(SMALL_BYTES)
            if len(content) == SMALL_BYTES:
                file = pq.ParquetFile(path, read_dictionary=words, memory_map=True)
                self._demand(path, file, schema)
                for batch in file.iter_batches(PIECE_ROWS, columns=schema.names):
                    yield self._fitted(path, pa.Table.from_batches([batch]), schema)
                return
            # Arrow's own way to a file costs more than the file.
            file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=words)
            self._demand(path, file, schema)
            rows = file.read(columns=schema.names, use_threads=False)
            yield self._fitted(path, rows, schema)
        except FAULTS as error:
            if self._strict:
                raise LoadError(
                    f"{path} is no whole Parquet file ({_first(error)}); remove it to read the rest"
                ) from error
            self._note(path, error)

    def batches(self, columns: Sequence[str], span: Span | None = None) -> Iterator[pa.Table]:
        """Rows as they were written, some at a time; no more than those is held.

        Args:
            columns: Of the contract.
            span: A window of the table's own time (WHEN), the end excluded; None = all. Parts that
                lie outside by their statistics are not read.

        Raises:
            LoadError: As `pieces`.
        """
        schema = self.schema(columns)
        if span is None:
            for path in self.parts():
                yield from self.pieces(path, schema)
            return
        when, unit = WHEN[self.name]
        first, last = span.start * unit, span.end * unit
        inside = (ds.field(when) >= first) & (ds.field(when) < last)
        wider = self.schema(list(dict.fromkeys((*columns, when))))
        for path in self.parts():
            edges = _edges(path, when)
            if all(each is not None and (each[1] < first or each[0] >= last) for each in edges):
                continue
            for rows in self.pieces(path, wider):
                yield rows.filter(inside).select(schema.names)

    def frame(self) -> pd.DataFrame:
        """All rows and columns; words are categories in the order of their letters.

        Raises:
            LoadError: As `pieces`.
        """
        # Narrow from the start: of 2,048 ranks, words as Arrow has them are a gigabyte.
        held: dict[str, list[pa.Array]] = {name: [] for name in self._schema.names}
        for rows in _together(self.batches(self._schema.names)):
            for name, column in zip(rows.schema.names, rows.columns, strict=True):
                held[name] += [_narrow(chunk) for chunk in column.chunks]
        frame = pd.DataFrame(
            {field.name: _column(field, held.pop(field.name)) for field in self._schema}, copy=False
        )
        release()
        return frame

    def read(
        self, columns: Sequence[str], where: ds.Expression | None = None, keep: Keep | None = None
    ) -> pa.Table:
        """Rows as they were written; a column that is not there is null.

        Args:
            columns: Of the contract.
            where: Rows to read; parts whose statistics rule them out are not opened.
            keep: Chooses rows of a batch that has these columns.

        Raises:
            ArchiveError: The files went away.
        """
        schema = self.schema(columns)
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
            raise ArchiveError(
                Problem.DAMAGED, f"{self.name} of {self._files.folder} cannot be read: {error}",
                "remove it to see the rest",
            ) from None  # fmt: skip

    def head(self, columns: Sequence[str], rows: int) -> pa.Table:
        """The first rows, in one chunk; none where they cannot be read."""
        schema = self.schema(columns)
        listed = self.listed()
        first = (listed.folder / name for name in listed.names[:HEAD_PARTS])
        paths = [str(path) for path in first if not self._is_torn(path)]
        if not paths:
            return schema.empty_table()
        try:
            words = [name for name in columns if name in self._words]
            table = ds.dataset(paths, schema=self._schema,
                               format=ds.ParquetFileFormat(dictionary_columns=words))  # fmt: skip
            return table.head(rows, columns=list(columns)).unify_dictionaries().combine_chunks()
        except FAULTS:
            return schema.empty_table()

    def edges(self, column: str) -> tuple[float, float] | None:
        """Lowest and highest value of a column, by the statistics of the first and last parts."""
        listed = self.listed()
        ends = dict.fromkeys([*listed.names[:1], *listed.names[-EDGE_PARTS:]])
        told = [each for name in ends for each in _edges(listed.folder / name, column)]
        found = [at for each in told if each is not None for at in each]
        return (min(found), max(found)) if found else None

    def _dataset(
        self, paths: Sequence[Path], schema: pa.Schema, where: ds.Expression | None,
        keep: Keep | None,
    ) -> pa.Table:  # fmt: skip
        if not paths:
            return schema.empty_table()
        present = set(pq.read_schema(paths[-1]).names)
        with self._lock:
            self._absent |= set(schema.names) - present - self._added
        words = [name for name in schema.names if name in self._words]
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
        chosen = _joined(map(keep, batches), schema)
        release()
        return chosen

    def _alone(self, path: Path, schema: pa.Schema) -> pa.Table | None:
        """One part, cast to what the contract says; None and a note where it is torn."""
        try:
            return fitted(pq.read_table(path), schema)
        except FAULTS as error:
            self._note(path, error)
            return None

    def _note(self, path: Path, error: BaseException) -> None:
        """That a part is torn."""
        state = state_of(path)
        if state is not None:
            with self._lock:
                self._torn[state] = f"{path.name} ({_first(error)[:120]})"

    def mended(self) -> bool:
        """Whether a part that was torn is another one now, or gone; it is reported no more."""
        if not self._torn:
            return False
        listed = self.listed()
        with self._lock:
            torn = {state: listed.folder / state[0] if listed.names != ("",) else listed.folder
                    for state in self._torn}  # fmt: skip
            other = [state for state, path in torn.items() if state_of(path) != state]
            for state in other:
                del self._torn[state]
        return bool(other)

    def note_absent(self, columns: Sequence[str]) -> None:
        """That the newest part that can be read lacks some of these columns."""
        listed = self.listed()
        for name in reversed(listed.names[-EDGE_PARTS:]):
            try:
                present = set(pq.read_schema(listed.folder / name).names)
            except FAULTS:
                continue
            with self._lock:
                self._absent |= set(columns) - present - self._added
            return

    def _demand(self, path: Path, file: pq.ParquetFile, schema: pa.Schema) -> None:
        """Of a strict table: the part has all the columns that its release had."""
        present = {*file.schema_arrow.names, *self._added}
        absent = [name for name in schema.names if name not in present]
        if self._strict and absent:
            raise LoadError(
                f"{path} lacks the column {', '.join(absent)};"
                f" schema version {archive.SCHEMA_VERSION} has it"
            )

    def _fitted(self, path: Path, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        try:
            return fitted(rows, schema)
        except (pa.ArrowException, ValueError) as error:
            if not self._strict:
                raise
            raise LoadError(f"{path} has a column of another type ({_first(error)})") from error

    def _names(self, path: Path) -> list[str]:
        names = names_of(path, links=self._files.links)
        self._beyond = max(0, len(names) - MOST_PARTS)
        return names[:MOST_PARTS]

    def _kind(self, column: Column) -> pa.DataType:
        if column.name in self._words:
            return pa.dictionary(pa.int32(), pa.string())
        return pa.type_for_alias(column.dtype)

    def _is_torn(self, path: Path) -> bool:
        if not self._torn:
            return False
        return state_of(path) in self._torn


def _joined(
    batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch], schema: pa.Schema
) -> pa.Table:
    kept = [batch for batch in batches if batch.num_rows]
    if not kept:
        return schema.empty_table()
    return pa.Table.from_batches(kept).cast(schema)


def _together(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Some batches as one, with one dictionary a column: parts of 5 s have few rows."""
    some: list[pa.Table] = []
    for batch in batches:
        some.append(batch)
        if sum(each.num_rows for each in some) >= BATCH_ROWS:
            yield whole(pa.concat_tables(some))
            some = []
    if some:
        yield whole(pa.concat_tables(some))


def _narrow(cells: pa.Array) -> pa.Array:
    """With words numbered by the smallest whole numbers that do."""
    if not pa.types.is_dictionary(cells.type):
        return cells
    kind = pa.from_numpy_dtype(np.min_scalar_type(-1 - len(cells.dictionary)))
    return pa.DictionaryArray.from_arrays(cells.indices.cast(kind), cells.dictionary)


def _column(field: pa.Field, parts: list[pa.Array]) -> Any:
    """A column of a frame; its parts are forgotten."""
    if pa.types.is_dictionary(field.type):
        return _categories(parts)
    cells = pa.chunked_array(parts, field.type)
    parts.clear()
    if field.name in ("rank", "gpu"):
        # Nullable ids come as floats otherwise, and rank 0.0 is no rank.
        return cells.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype()}.get)
    return cells.to_pandas()


def _categories(parts: list[pa.Array]) -> pd.Categorical:
    """Words in the order of their letters; "" is always one, which fills what is absent."""
    told = [part.dictionary.to_pylist() for part in parts]
    words = sorted({"", *(word for some in told for word in some if word is not None)})
    place = {word: number for number, word in enumerate(words)} | {None: -1}
    kind = np.min_scalar_type(-1 - len(words))
    # The last one is of a row without a word.
    of = [np.array([*(place[word] for word in some), -1], dtype=kind) for some in told]
    codes = [
        which[pc.fill_null(part.indices, -1).to_numpy(zero_copy_only=False)]
        for which, part in zip(of, parts, strict=True)
    ]
    parts.clear()
    return pd.Categorical.from_codes(
        np.concatenate([np.empty(0, dtype=kind), *codes]), pd.Index(words), validate=False
    )


def _edges(path: Path, column: str) -> list[tuple[float, float] | None]:
    """Lowest and highest value of a column in each row group of a part; None = not reported."""
    found: list[tuple[float, float] | None] = []
    try:
        meta = pq.read_metadata(path)
        place = meta.schema.names.index(column)
        for group in range(meta.num_row_groups):
            told = meta.row_group(group).column(place).statistics
            known = told is not None and told.has_min_max
            found.append((float(told.min), float(told.max)) if known else None)
    except (*FAULTS, TypeError):
        return [None]
    return found


def _first(error: BaseException) -> str:
    """The first line of what Arrow says."""
    return (str(error).splitlines() or [type(error).__name__])[0]
