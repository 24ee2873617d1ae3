"""The archive's tables on disk: closed part files, since a killed writer leaves no readable one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.collector.contract.archive import Column
from lockstep.collector.contract.whole_file import replacing

if TYPE_CHECKING:
    import pyarrow

Row = tuple[Any, ...]
"""Values in the order of the table's columns."""


def arrow_schema(columns: Sequence[Column]) -> "pyarrow.Schema":
    """The Arrow schema of a table of contract.archive; units and help go into field metadata."""
    import pyarrow

    return pyarrow.schema(
        [
            pyarrow.field(
                column.name,
                pyarrow.type_for_alias(column.dtype),
                metadata={"unit": column.unit, "help": column.help},
            )
            for column in columns
        ]
    )


class PartWriter:
    """Collects rows of one table and closes them into `part-<n>.parquet` files of its folder."""

    def __init__(self, folder: Path, columns: Sequence[Column]) -> None:
        import pyarrow
        import pyarrow.parquet  # now: it takes seconds on a busy machine

        pyarrow.array([0])  # imports pandas where it is installed, for the same reason now
        self._folder = folder
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._rows: list[Row] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._number = 1 + max(
            (int(path.stem.removeprefix("part-")) for path in folder.glob("part-[0-9]*.parquet")),
            default=-1,
        )

    def add(self, rows: Sequence[Row]) -> None:
        """Keep rows for the next part."""
        self._rows += rows

    def close_part(self, *, even_if_empty: bool = False) -> None:
        """Write the rows as one file that appears whole; on failure they are kept.

        Raises:
            OSError: The disk is full or not writable.
        """
        import pyarrow
        import pyarrow.parquet  # now: it takes seconds on a busy machine

        if not self._rows and not even_if_empty:
            return
        values = zip(*self._rows, strict=True) if self._rows else [()] * len(self._columns)
        arrays = [
            pyarrow.array(column, field.type)
            for column, field in zip(values, self._schema, strict=True)
        ]
        table = pyarrow.Table.from_arrays(arrays, schema=self._schema)
        path = self._folder / f"part-{self._number:06d}.parquet"
        with replacing(path) as file:
            pyarrow.parquet.write_table(table, file, compression="zstd")
        self._number += 1
        self._rows = []

    @property
    def empty(self) -> bool:
        """Whether the table has no part yet."""
        return self._number == 0
