"""A Parquet file in the public op-trace schema (ByteDance-Seed/StragglerAnalysis)."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lockstep.analyzer.shapes.run import LoadError

COLUMNS: tuple[str, ...] = (
    "dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "gmc",
    "mb_id",
)  # fmt: skip
NUMBERS = tuple(name for name in COLUMNS if name != "optype")


def read(path: Path) -> pd.DataFrame:
    """The rows of the file: the columns of COLUMNS, `optype` as a category.

    Raises:
        LoadError: It is no whole Parquet file, has no rows, or lacks or mistypes columns.
    """
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            absent = [name for name in COLUMNS if name not in names]
            if absent:
                raise LoadError(
                    f"{path} lacks the column {', '.join(absent)};"
                    f" an op trace has {', '.join(COLUMNS)}"
                )
            table = file.read(columns=list(COLUMNS), use_threads=False)
    except FileNotFoundError:
        raise LoadError(f"{path} does not exist; give the Parquet file of an op trace") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LoadError(f"{path} is no whole Parquet file ({reason})") from error
    if table.num_rows == 0:
        raise LoadError(f"{path} holds no operations; it must have a row for each")
    for name in NUMBERS:
        kind = table.schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise LoadError(f"{path}: the column {name} is {kind}; it must hold numbers")
    column = table.column("optype")
    names_of = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(names_of) or pa.types.is_large_string(names_of)):
        raise LoadError(f"{path}: the column optype is {column.type}; it must hold names")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    place = table.schema.get_field_index("optype")
    frame: pd.DataFrame = table.set_column(place, "optype", column).to_pandas()
    return frame
