"""The table of results: a folder of Parquet parts, one a cell, that many write at the same time.

    results.write(Path("results.parquet"), {"bench": "nightly", "cell": "gpt", "nodes": 2})
    rows = results.read(Path("results.parquet"))

A part is written under a temporary name and renamed: a reader sees whole parts, and a writer that
is killed leaves none. The part's name comes from bench, cell and repeat, so that a cell that is
written again replaces itself. DuckDB reads the same folder:
`SELECT * FROM read_parquet('results.parquet/*.parquet', union_by_name = true)`.
"""

from lockstep.bench.results.columns import COLUMNS, METRIC_PREFIX, VERSIONS, Value
from lockstep.bench.results.table import (
    ResultError,
    checked,
    columns_of,
    has_finished,
    read,
    write,
)

__all__ = [
    "COLUMNS", "METRIC_PREFIX", "VERSIONS", "ResultError", "Value", "checked", "columns_of",
    "has_finished", "read", "write",
]  # fmt: skip
