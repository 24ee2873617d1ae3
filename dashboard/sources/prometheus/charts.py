"""Charts of one node and one GPU: the chart table, read as PromQL."""

from collections.abc import Sequence
from dataclasses import dataclass

from lockstep.analyzer.read.prometheus.promql import lasting, of_targets, series, window
from lockstep.analyzer.shapes.labels import Target
from lockstep.dashboard.shapes import Lines
from lockstep.dashboard.sources.chart_table import (
    BESIDE_PEERS,
    BUSY,
    GPU_CHARTS,
    IN_USE,
    NODE_CHARTS,
    PEERS,
    Over,
    Row,
    lines,
)
from lockstep.dashboard.sources.grid import Grid
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.directory import Member, hardware, sample
from lockstep.dashboard.sources.prometheus.run_charts import Told, asked, nodes, stands_for


@dataclass(frozen=True, slots=True)
class _Queries:
    """Rows of the table as queries, for points of one distance.

    Attributes:
        step: Duration for which a point stands.
        rate: Of rate(), which needs some scrapes.
    """

    step: str
    rate: str

    def line(self, row: Row, pages: str, **equal: str) -> str:
        """One series a line."""
        name = series(row.metric.name, pages, **equal, **row.equal)
        by = f" by ({row.by}) " if row.by else ""
        return f"{'sum' if row.summed else 'max'}{by}({self._over(row, name)})"

    def peers(self, row: Row, pages: str, share: float) -> str:
        """A quantile of all series."""
        return f"quantile({share}, {self._over(row, series(row.metric.name, pages, **row.equal))})"

    def _over(self, row: Row, name: str) -> str:
        if row.over == Over.RATE:
            return f"rate({name}[{self.rate}])"
        if row.over == Over.GROWN:
            return f"clamp_min({name} - {name} offset {self.step}, 0)"
        return f"{row.over}_over_time({name}[{self.step}])"


def node_charts(
    asking: Asking, targets: Sequence[Target], peers: Sequence[Member], grid: Grid, scrape: float
) -> tuple[Lines, ...]:
    """All of them, in their order; `peers` are ranks on other nodes."""
    pages, queries = of_targets(targets), _queries(grid, scrape)
    _, others = hardware(sample(peers))
    host = nodes(asking, grid, targets, queries.rate, queries.step)
    queries_sent: dict[str, Told] = {
        "cpu": _called(BUSY, host["cpu"]), "memory": _called(IN_USE, host["memory"]),
        "network": host["network"],
    }  # fmt: skip
    for key, chart in NODE_CHARTS.items():
        if key in queries_sent:
            continue
        queries_sent[key] = _drawn(asking, grid, queries, chart.rows, pages)
        if key in BESIDE_PEERS:
            values, words = queries_sent[key]
            (row,) = chart.rows
            values = {gpu: values[gpu] for gpu in sorted(values, key=lambda one: (len(one), one))}
            if others and values:
                edges, more = asked(asking, grid, {
                    name: queries.peers(row, others, share)
                    for name, share in zip(PEERS, (0.05, 0.95), strict=True)
                })  # fmt: skip
                values, words = values | edges, f"{words}\n{more}"
            queries_sent[key] = values, words
    sampling = stands_for(grid, scrape)
    return tuple(
        lines(
            chart,
            key,
            grid.times,
            queries_sent[key][0],
            band=PEERS,
            sampling=sampling,
            query=queries_sent[key][1],
        )
        for key, chart in NODE_CHARTS.items()
    )


def gpu_charts(
    asking: Asking, targets: Sequence[Target], gpu: int, grid: Grid, scrape: float
) -> tuple[Lines, ...]:
    """Those of which anything is told, in their order."""
    pages, queries, sampling = of_targets(targets), _queries(grid, scrape), stands_for(grid, scrape)
    charts = []
    for key, chart in GPU_CHARTS.items():
        values, words = _drawn(asking, grid, queries, chart.rows, pages, gpu=str(gpu))
        charts.append(lines(chart, key, grid.times, values, sampling=sampling, query=words))
    return tuple(chart for chart in charts if chart.values)


def _queries(grid: Grid, scrape: float) -> _Queries:
    return _Queries(lasting(grid.step), window(grid.step, scrape))


def _drawn(
    asking: Asking, grid: Grid, queries: _Queries, rows: Sequence[Row], pages: str, **equal: str
) -> Told:
    """The lines of some rows, in their order, and the queries for people."""
    answers = [
        asked(asking, grid, {row.line: queries.line(row, pages, **equal)}, row.by) for row in rows
    ]
    values = {name: line for one, _ in answers for name, line in one.items()}
    return values, "\n".join(words for _, words in answers)


def _called(name: str, query: Told) -> Told:
    """Of one node mean and highest are the same."""
    return {name: line for line in list(query[0].values())[:1]}, query[1]  # noqa: B035 - one at most
