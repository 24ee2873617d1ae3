"""A table that gets a new part every few seconds; each part is read once."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pyarrow as pa

from lockstep.analyzer.read.archive.parts import Listed, release, whole
from lockstep.analyzer.read.archive.table import Table

TOGETHER = 256
"""Small parts that are handed on as one: much is paid by the table, not by the row."""
ALONE = 8
"""Fewer parts are read without other threads."""


class Growing:
    """What came to a table since the last look.

    Args:
        table: Which; a single file counts as one part.
        columns: That are read of it.
    """

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self._table, self._schema = table, table.schema(columns)
        self._seen = Listed(Path(), (), ())

    def look(self) -> tuple[bool, Iterator[pa.Table]]:
        """Whether all that was read is to be forgotten, and what is new.

        Returns:
            True where a part that was read is gone or was changed: all are new then. And their
            rows, many parts at a time, in one chunk each; to be read to its end.
        """
        listed, seen = self._table.listed(), self._seen
        count = len(seen.names)
        # Parts are numbered: what is new comes last. Else they are read again, and so all are.
        same = listed.folder == seen.folder and listed.names[:count] == seen.names
        same &= listed.names != seen.names or listed.stamp == seen.stamp
        same &= not count or listed.stamp[:1] == seen.stamp[:1]
        mended = self._table.mended()
        over = bool(count) and (mended or not same)
        return over, self._news(listed, listed.names if over else listed.names[count:])

    def _news(self, listed: Listed, names: Sequence[str]) -> Iterator[pa.Table]:
        if names:
            self._table.note_absent(self._schema.names)
        paths = [listed.folder / name for name in names]
        for first in range(0, len(paths), TOGETHER):
            yield from self._together(paths[first : first + TOGETHER])
        self._seen = listed
        if len(paths) != 1 or listed.names == ("",):
            release()

    def _together(self, paths: Sequence[Path]) -> Iterator[pa.Table]:
        if len(paths) < ALONE:
            for path in paths:
                yield from map(whole, self._table.pieces(path, self._schema))
            return
        # Two tables are read at once.
        with ThreadPoolExecutor(min(4, max((os.cpu_count() or 1) // 2, 1))) as pool:
            found = list(chain.from_iterable(pool.map(self._small, paths)))
        if found:
            yield whole(pa.concat_tables(found))

    def _small(self, path: Path) -> list[pa.Table]:
        return list(self._table.pieces(path, self._schema))
