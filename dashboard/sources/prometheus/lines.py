"""Lines of a chart from queries: a name is a query, or the label whose values are the names."""

from collections.abc import Mapping

from lockstep.dashboard.shapes import Floats
from lockstep.dashboard.sources.chart_table import LONGEST
from lockstep.dashboard.sources.grid import Grid, duration
from lockstep.dashboard.sources.prometheus.asking import Asking


def asked(
    asking: Asking, grid: Grid, queries: Mapping[str, str], by: str = ""
) -> tuple[dict[str, Floats], str]:
    """Lines by name, and the queries for people.

    Args:
        asking: The Prometheus.
        grid: Moments.
        queries: Name -> query; with several series and no label the first counts. `{label}` in a
            name is that label's value.
        by: The label of that name.
    """
    found: dict[str, Floats] = {}
    for name, query in queries.items():
        for one in asking.over(query, grid):
            called = name.replace(f"{{{by}}}", one.labels.get(by, "")[:LONGEST]) if by else name
            found.setdefault(called, one.values)
    return found, "\n".join(queries.values())


def stands_for(grid: Grid, scrape: float) -> str:
    """Lines.sampling of a grid; empty = a point is a scrape."""
    return f"Each point stands for {duration(grid.step)}" if grid.step > scrape else ""
