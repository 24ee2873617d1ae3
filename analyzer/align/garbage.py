"""Seconds per step in Python's garbage collector, from the operations that ranks recorded."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid, RankInfo

GARBAGE = "gc"
"""The operation of contract.words.OPS."""


def garbage(
    ops: pd.DataFrame | None, ranks: Sequence[RankInfo], from_step: NDArray[np.int64]
) -> FloatGrid:
    """(W, R) seconds per step; NaN where nobody told.

    A run in which no rank ever told of a collection does not record them. Windows of a length
    other than one step, or of several attempts, are not told apart: all NaN.

    Args:
        ops: contract.archive.OPS, or None.
        ranks: The columns.
        from_step: (W,) first step of each window of one step, ascending.
    """
    cells = np.full((len(from_step), len(ranks)), np.nan)
    if ops is None or not len(from_step) or (np.diff(from_step) != 1).any():
        return cells
    collections = ops[ops["optype"] == GARBAGE]
    if collections.empty:
        return cells
    column_of = {info.rank: column for column, info in enumerate(ranks)}
    for rank, steps in ops.groupby("rank")["step"].agg(["min", "max"]).iterrows():
        column = column_of.get(int(str(rank)))
        if column is not None:
            told = (from_step >= steps["min"]) & (from_step <= steps["max"])
            cells[told, column] = 0.0
    columns = collections["rank"].map(column_of)
    rows = collections["step"].to_numpy(dtype=np.int64) - from_step[0]
    known = columns.notna().to_numpy() & (rows >= 0) & (rows < len(from_step))
    place = rows[known], columns[known].to_numpy(dtype=np.int64)
    np.add.at(cells, place, collections["duration"].to_numpy(dtype=float)[known])
    return cells
