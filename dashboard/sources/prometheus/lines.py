"""Lines of a chart from queries: a name is a query, or the label whose values are the names."""

from collections.abc import Iterable, Mapping

import numpy as np

from dashboard.shapes import Floats
from dashboard.sources.grid import Grid
from dashboard.sources.prometheus.asking import Asking


def asked(
    asking: Asking, grid: Grid, queries: Mapping[str, str], by: str = ""
) -> tuple[dict[str, Floats], str]:
    """Lines by name, and the queries for people.

    Args:
        asking: The Prometheus.
        grid: Moments.
        queries: Name -> query; with several series and no label the first counts.
        by: Label whose value becomes the name, in place of the query's.
    """
    found: dict[str, Floats] = {}
    for name, query in queries.items():
        for one in asking.over(query, grid):
            found.setdefault(f"{one.labels.get(by, name)}" if by else name, one.values)
    return found, "\n".join(queries.values())


def band(values: Iterable[Floats]) -> tuple[Floats, Floats] | None:
    """5 % and 95 % of some lines at each moment; NaN where none is known."""
    rows = list(values)
    if not rows:
        return None
    table = np.stack(rows)
    known = np.isfinite(table).any(axis=0)
    low, high = np.full(table.shape[1], np.nan), np.full(table.shape[1], np.nan)
    low[known], high[known] = np.nanquantile(table[:, known], (0.05, 0.95), axis=0)
    return low, high
