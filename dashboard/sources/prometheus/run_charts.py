"""The charts of the Run page: of at most MOST_SERIES series a query, however large the run is."""

from collections.abc import Mapping, Sequence

import numpy as np

from lockstep.analyzer.read.prometheus.promql import lasting, of_targets, one_of, series
from lockstep.analyzer.shapes.labels import Target
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import Floats, Lines, Span
from lockstep.dashboard.sources.chart_table import (
    ALL,
    BANDS,
    HIGHEST,
    LONGEST,
    LOWEST,
    MEAN,
    MEDIAN,
    OWN_CHARTS_AT_MOST,
    QUANTILES,
    RUN_CHARTS,
    SLOWEST,
    lines,
    own_chart,
    own_key,
    share_of_peak,
)
from lockstep.dashboard.sources.grid import Grid, duration
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.directory import (
    MOST_SERIES,
    Member,
    hardware,
    sample,
    spread,
)
from lockstep.workloads.measure.peak import Peak, of_gpu

INFO = "15m"
"""Before the end of a run, in which its GPUs say what they are."""
FEW = 8
"""Ranks where a rank has several series."""
SCRAPES = 4.0
"""Of rate(): as promql.window."""
LEAST_SCRAPES = 2.5
"""In which two are for certain: of runs that are hardly longer than the other window."""
MOST_LOOKS = 20_000
"""Moments of a subquery; beyond, the slowest moment is not looked for."""
VIRTUAL = 'device!~"lo|veth.*|docker.*|cali.*|cni.*|br-.*|virbr.*"'
"""Devices that show what others carry."""
Told = tuple[dict[str, Floats], str]


def run_charts(
    asking: Asking, run: str, ranks: Sequence[Member], grid: Grid, scrape: float, life: Span
) -> tuple[Lines, ...]:
    """All of them, in their order.

    Args:
        asking: The Prometheus.
        run: The run.
        ranks: Those of it that are known.
        grid: Moments, of which each stands for the step that ends there.
        scrape: Seconds between two scrapes.
        life: When the run was there; rates over a time that is not all in it are not told, because
            they would be those of a slower run.
    """
    chosen = sample(ranks)
    peak = peak_of(asking, chosen, life.end)
    own = series("", "rank=~" + one_of([str(one.rank) for one in chosen]), run=run)[1:-1]
    few = series(
        "", "rank=~" + one_of([str(member.rank) for member in sample(ranks, FEW)]), run=run
    )
    seconds = max(grid.step, SCRAPES * scrape)
    if life.seconds < 3 * seconds:
        seconds = max(grid.step, LEAST_SCRAPES * scrape)
    rate, step = lasting(seconds), lasting(grid.step)
    world = max([len(ranks), *(member.world for member in ranks)])
    _, gpus = hardware(chosen)
    targets = sorted({one.target for one in chosen})
    queries: dict[str, Told] = {
        "loss": _loss(asking, grid, own, step),
        "throughput": _throughput(asking, grid, own, rate, world),
        "step": _step(asking, grid, own, few[1:-1], rate, scrape),
        "mfu": _flops(asking, grid, own, rate, peak),
        "phases": _phases(asking, grid, few[1:-1], rate),
        "gpu": _gpu(asking, grid, gpus, step) if gpus else ({}, ""),
    }
    inside = (grid.times - seconds >= life.start) & (grid.times <= life.end)
    for key in ("throughput", "step", "mfu"):
        shown = {name: np.where(inside, line, np.nan) for name, line in queries[key][0].items()}
        queries[key] = shown, queries[key][1]
    queries |= nodes(asking, grid, targets, rate, step)
    first = f"max(max_over_time({m.TRAIN_STEPS.name}{few}[{step}]))"
    courses = asking.over(first, grid)
    steps = courses[0].values if courses else None
    thinned = f"{len(chosen)} of {world} ranks" if world > MOST_SERIES else ""
    words = "; ".join(word for word in (stands_for(grid, scrape), thinned) if word)
    samples = m.TRAIN_SAMPLES.name in queries["throughput"][1]
    units = {"throughput": "samples/s"} if samples else {}
    charts = [
        lines(
            title, key, grid.times, queries[key][0], band=BANDS.get(key), steps=steps,
            sampling=words, query=queries[key][1], unit=units.get(key, ""),
        )
        for key, title in RUN_CHARTS.items()
    ]  # fmt: skip
    charts += _own(asking, grid, run, own, step, steps, words, life)
    if peak is None:
        return tuple(charts)
    return tuple(
        share_of_peak(chart, peak.words) if chart.key == "mfu" else chart for chart in charts
    )


def _own(
    asking: Asking, grid: Grid, run: str, own: str, step: str, steps: Floats | None,
    words: str, life: Span,
) -> list[Lines]:  # fmt: skip
    """A chart a name that the program logs; one question where it logs none."""
    logged = f"{m.TRAIN_VALUE.name}{{{own}}}"
    lived = lasting(max(life.seconds, 60.0))
    rows = asking.instant(f"group by (name) (last_over_time({logged}[{lived}]))", grid.end)
    names = sorted({labels.get("name", "") for labels, _ in rows} - {""})[:OWN_CHARTS_AT_MOST]
    if not names:
        return []
    edges = {}
    queries = []
    for line, across, over in ((LOWEST, "min by (name)", "min"), (MEAN, "avg by (name)", "avg"),
                               (HIGHEST, "max by (name)", "max")):  # fmt: skip
        query = f"{across} ({over}_over_time({logged}[{step}]))"
        queries.append(query)
        edges[line], _ = asked(asking, grid, {"{name}": query}, "name")
    nothing = np.full(len(grid.times), np.nan)
    return [
        lines(
            own_chart(name), own_key(name), grid.times,
            {line: told.get(name, nothing) for line, told in edges.items()},
            band=(LOWEST, HIGHEST), steps=steps, sampling=words, query="\n".join(queries),
        )
        for name in names
    ]  # fmt: skip


def nodes(
    asking: Asking, grid: Grid, targets: Sequence[Target], rate: str, step: str
) -> dict[str, Told]:
    """CPU, memory and network of some nodes; without any, nothing.

    A node has many network devices: of more than FEW nodes, FEW stand for the others.
    """
    if not targets:
        return dict.fromkeys(("cpu", "memory", "network"), ({}, ""))
    few_targets = [targets[index] for index in spread(range(len(targets)), FEW)]
    pages, few, factor = (
        of_targets(targets),
        of_targets(few_targets),
        len(targets) / len(few_targets),
    )
    idle = series(m.HOST_CPU.name, f'{pages},mode=~"idle|iowait"')
    cpu = f"1 - sum without (mode) (rate({idle}[{rate}])) / {series(m.HOST_CPUS.name, pages)}"
    free, total = (
        series(one.name, pages) for one in (m.HOST_MEMORY_AVAILABLE, m.HOST_MEMORY_TOTAL)
    )
    used = f"1 - min_over_time({free}[{step}]) / max_over_time({total}[{step}])"
    devices = series(m.NET_BYTES.name, f"{few},{VIRTUAL}")
    net = f"sum by (direction) (rate({devices}[{rate}])) * {factor:g}"
    ib = f"sum by (direction) (rate({series(m.IB_DATA.name, few)}[{rate}])) * {factor:g}"
    network, words = asked(asking, grid, {"{direction}": net}, "direction")
    over, more = asked(asking, grid, {"InfiniBand {direction}": ib}, "direction")
    network |= over
    return {
        "cpu": asked(asking, grid, _over_nodes(cpu)),
        "memory": asked(asking, grid, _over_nodes(used)),
        "network": (network, f"{words}\n{more}"),
    }


def _over_nodes(query: str) -> dict[str, str]:
    return {LOWEST: f"min({query})", MEDIAN: f"quantile(0.5, {query})", HIGHEST: f"max({query})"}


def _loss(asking: Asking, grid: Grid, own: str, step: str) -> Told:
    name = f"{m.TRAIN_LOSS.name}{{{own}}}[{step}]"
    return asked(
        asking, grid,
        {MEAN: f"avg(avg_over_time({name}))"},
    )  # fmt: skip


def _throughput(asking: Asking, grid: Grid, own: str, rate: str, world: int) -> Told:
    """Of the whole run, as if all its ranks did what those that are asked do."""
    for metric in (m.TRAIN_TOKENS, m.TRAIN_SAMPLES):
        query = f"avg(rate({metric.name}{{{own}}}[{rate}])) * {world}"
        found, words = asked(asking, grid, {ALL: query})
        if any(np.nan_to_num(values).any() for values in found.values()):
            return found, words
    return {}, ""


def _step(asking: Asking, grid: Grid, own: str, few: str, rate: str, scrape: float) -> Told:
    """Seconds of a step: one over steps per second, as the phases of a step are all of it."""
    wall = f"1 / (rate({m.TRAIN_STEPS.name}{{{own}}}[{rate}]) > 0)"
    queries = {name: f"quantile({q}, {wall})" for name, q in QUANTILES.items()}
    if (grid.end - grid.start) / scrape <= MOST_LOOKS:
        short = lasting(max(2.5 * scrape, 1.0))
        inner = f"rate({m.TRAIN_STEPS.name}{{{few}}}[{short}])"
        least = f"min_over_time({inner}[{lasting(grid.step)}:{lasting(scrape)}])"
        queries[SLOWEST] = f"1 / (min({least} > 0))"
    return asked(asking, grid, queries)


def _phases(asking: Asking, grid: Grid, few: str, rate: str) -> Told:
    each = f"sum by (phase) (rate({m.TRAIN_PHASE.name}{{{few}}}[{rate}]))"
    query = f"{each} / ignoring (phase) group_left () (sum({each}) > 0)"
    found, words = asked(asking, grid, {"{phase}": query}, "phase")
    return {name: line for name, line in found.items() if np.nan_to_num(line).any()}, words


def _flops(asking: Asking, grid: Grid, own: str, rate: str, peak: Peak | None) -> Told:
    """Of a rank, over the peak of its device where that is known."""
    share = "" if peak is None else f" / {peak.flops:g}"
    return asked(asking, grid, {MEAN: f"avg(rate({m.TRAIN_FLOPS.name}{{{own}}}[{rate}])){share}"})


def peak_of(asking: Asking, ranks: Sequence[Member], at: float) -> Peak | None:
    """Of the data sheet of the run's GPUs; None = unknown, or they are not all of one kind."""
    _, gpus = hardware(ranks)
    if not gpus:
        return None
    query = f"group by (model) (last_over_time({series(m.GPU_INFO.name, gpus)}[{INFO}]))"
    models = {labels.get("model", "") for labels, _ in asking.instant(query, at)}
    peaks = {of_gpu(model) for model in models}
    return peaks.pop() if len(peaks) == 1 else None


def _gpu(asking: Asking, grid: Grid, gpus: str, step: str) -> Told:
    name = f"{series(m.GPU_UTILIZATION.name, gpus)}[{step}]"
    return asked(
        asking, grid,
        {
            LOWEST: f"min(min_over_time({name}))",
            MEDIAN: f"quantile(0.5, avg_over_time({name}))",
            HIGHEST: f"max(max_over_time({name}))",
        },
    )  # fmt: skip


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
    lines: dict[str, Floats] = {}
    for name, query in queries.items():
        for course in asking.over(query, grid):
            called = name.replace(f"{{{by}}}", course.labels.get(by, "")[:LONGEST]) if by else name
            lines.setdefault(called, course.values)
    return lines, "\n".join(queries.values())


def stands_for(grid: Grid, scrape: float) -> str:
    """Lines.sampling of a grid; empty = a point is a scrape."""
    return f"Each point stands for {duration(grid.step)}" if grid.step > scrape else ""
