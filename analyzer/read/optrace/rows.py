"""Rows of operations as columns of numbers; impossible values are refused.

Foreign files have the public op-trace schema (ByteDance-Seed/StragglerAnalysis).
"""

import reprlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lockstep.analyzer.shapes.operations import Flags, Floats, Ints
from lockstep.analyzer.shapes.run import LoadError
from lockstep.collector.contract.words import OPS

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


LONGEST = 1e7
"""Seconds; no step takes four months."""
LARGEST_ID = 2**31


@dataclass(frozen=True, slots=True)
class Rows:
    """One operation of one worker in one step a row; `kind` is a place in words.OPS.

    `start` and `duration` are seconds; the others are ids, -1 = none where that may be.
    """

    dp: Ints
    stage: Ints
    rank: Ints
    step: Ints
    kind: Ints
    seq: Ints
    chunk: Ints
    global_chunk: Ints
    micro_batch: Ints
    start: Floats
    duration: Floats

    def name(self, row: int) -> str:
        """A row in words."""
        return (
            f"{OPS[self.kind[row]]} {self.seq[row]} of dp rank {self.dp[row]},"
            f" stage {self.stage[row]} in step {self.step[row]}"
        )


def valid_rows(frame: pd.DataFrame, source: str) -> tuple[Rows, list[str]]:
    """The rows of known operations that have times, and in words what was left out.

    Args:
        frame: public.COLUMNS.
        source: What to call them.

    Raises:
        LoadError: No row is left, or one has what no run can have.
    """
    missing: list[str] = []
    optype = frame["optype"].astype("category")
    names = [str(name) for name in optype.cat.categories]
    places = np.array([OPS.index(name) if name in OPS[1:] else -1 for name in names] + [-1])
    kind = places[optype.cat.codes.to_numpy()]
    start, duration = (_floats(frame, name) for name in ("start_ts", "duration"))
    timed = np.isfinite(start) & np.isfinite(duration)
    known = kind >= 0
    if not known.any():
        raise LoadError(
            f"{source} has no operation that Lockstep knows (its first is"
            f" {reprlib.repr(names[0])}); an op trace has forward-compute and others"
        )
    if not known.all():
        unknown = sorted(set(names) - set(OPS[1:]))
        missing.append(f"operations of unknown type are left out: {', '.join(unknown[:5])}")
    if not timed[known].any():
        raise LoadError(f"{source} has no operation with a start and a duration; all are NaN")
    if not timed[known].all():
        missing.append(f"{int((~timed[known]).sum())} operations have no times")
    kept = known & timed
    rows = Rows(
        dp=_ids(frame, "dp_rank", kept, source),
        stage=_ids(frame, "stage", kept, source),
        rank=_ids(frame, "rank", kept, source),
        step=_ids(frame, "step", kept, source),
        kind=kind[kept],
        seq=_ids(frame, "seq_id", kept, source),
        chunk=_ids(frame, "mc", kept, source, least=-1),
        global_chunk=_ids(frame, "gmc", kept, source, least=-1),
        micro_batch=_ids(frame, "mb_id", kept, source, least=-1),
        start=start[kept],
        duration=duration[kept],
    )
    if (backwards := np.flatnonzero(rows.duration < 0)).size:
        raise LoadError(f"{source}: {rows.name(int(backwards[0]))} ends before it begins")
    if (np.abs(rows.start) > LONGEST).any() or (rows.duration > LONGEST).any():
        raise LoadError(
            f"{source} has times over {LONGEST:g} s; start_ts counts seconds since the step began"
        )
    return rows, missing


def _floats(frame: pd.DataFrame, name: str) -> Floats:
    return frame[name].to_numpy(dtype=np.float64, na_value=np.nan)


def _ids(
    frame: pd.DataFrame, name: str, kept: Flags, source: str, least: int = 0
) -> NDArray[np.int64]:
    column = frame[name]
    if column.dtype.kind == "i":
        ids = column.to_numpy()[kept].astype(np.int64)
        good = ids >= least
    else:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)[kept]
        if least < 0:
            values = np.where(np.isnan(values), least, values)
        good = (values >= least) & (values < LARGEST_ID)
        ids = np.where(good, values, 0).astype(np.int64)
        good &= ids == np.where(good, values, 0)
    if not good.all() or (ids.size and ids.max() >= LARGEST_ID):
        raise LoadError(f"{source}: {name} must be whole numbers from {least} in every row")
    return ids
