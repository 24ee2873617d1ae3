"""The charts of the Run page: of at most MOST_SERIES series a query, however large the run is."""

from collections.abc import Sequence

import numpy as np

from analyzer.load.prometheus.promql import one_of
from collector.contract import metrics as m
from dashboard.shapes import Floats, Lines
from dashboard.sources.grid import Grid
from dashboard.sources.prometheus.asking import Asking
from dashboard.sources.prometheus.directory import Member, hardware, sample
from dashboard.sources.prometheus.lines import asked
from dashboard.sources.prometheus.words import (
    MOST_SERIES,
    Target,
    lasting,
    of_targets,
    series,
    spread,
    window,
)
from dashboard.sources.titles import RUN_CHARTS, lines

FEW = 8
"""Ranks where a rank has several series."""
MOST_LOOKS = 20_000
"""Moments of a subquery; beyond, the slowest moment is not looked for."""
VIRTUAL = 'device!~"lo|veth.*|docker.*|cali.*|cni.*|br-.*|virbr.*"'
"""Devices that show what others carry."""
Told = tuple[dict[str, Floats], str]


def run_charts(
    asking: Asking, run: str, ranks: Sequence[Member], grid: Grid, scrape: float
) -> tuple[Lines, ...]:
    """All of them, in their order."""
    chosen = sample(ranks)
    own = series("", "rank=~" + one_of([str(one.rank) for one in chosen]), run=run)[1:-1]
    few = series("", "rank=~" + one_of([str(one.rank) for one in sample(ranks, FEW)]), run=run)
    rate = window(grid.step, scrape)
    step = lasting(grid.step)
    world = max([len(ranks), *(one.world for one in ranks)])
    _, gpus = hardware(chosen)
    targets = sorted({one.target for one in chosen})
    told: dict[str, Told] = {
        "loss": _loss(asking, grid, own, step),
        "throughput": _throughput(asking, grid, own, rate, world),
        "step": _step(asking, grid, own, few[1:-1], rate, scrape),
        "mfu": ({}, ""),
        "phases": _phases(asking, grid, few[1:-1], rate),
        "gpu": _gpu(asking, grid, gpus, step) if gpus else ({}, ""),
    }
    told |= nodes(asking, grid, targets, rate, step)
    first = f"max(max_over_time({m.TRAIN_STEPS.name}{few}[{step}]))"
    courses = asking.over(first, grid)
    steps = courses[0].values if courses else None
    thinned = f"{len(chosen)} of {world} ranks" if world > MOST_SERIES else ""
    sampling = f"each point stands for {grid.step:g} s" if grid.step > scrape else ""
    words = "; ".join(word for word in (sampling, thinned) if word)
    bands = {"step": ("p5", "p95"), "gpu": ("p5", "p95")}
    return tuple(
        lines(
            title, key, grid.times, told[key][0], band=bands.get(key), steps=steps,
            sampling=words, query=told[key][1],
            unit="samples/s" if key == "throughput" and "samples" in told[key][0] else "",
        )
        for key, title in RUN_CHARTS.items()
    )  # fmt: skip


def nodes(
    asking: Asking, grid: Grid, targets: Sequence[Target], rate: str, step: str
) -> dict[str, Told]:
    """CPU, memory and network of some nodes; without any, nothing.

    A node has many network devices: of more than FEW nodes, FEW stand for the others.
    """
    if not targets:
        return dict.fromkeys(("cpu", "memory", "network"), ({}, ""))
    told = [targets[place] for place in spread(range(len(targets)), FEW)]
    pages, few, factor = of_targets(targets), of_targets(told), len(targets) / len(told)
    idle = series(m.HOST_CPU.name, pages, mode="idle")
    cpu = f"1 - rate({idle}[{rate}]) / ignoring (mode) {series(m.HOST_CPUS.name, pages)}"
    free, total = (
        series(one.name, pages) for one in (m.HOST_MEMORY_AVAILABLE, m.HOST_MEMORY_TOTAL)
    )
    used = f"1 - min_over_time({free}[{step}]) / max_over_time({total}[{step}])"
    devices = series(m.NET_BYTES.name, f"{few},{VIRTUAL}")
    net = f"sum by (direction) (rate({devices}[{rate}])) * {factor:g}"
    ib = f"sum by (direction) (rate({series(m.IB_DATA.name, few)}[{rate}])) * {factor:g}"
    network, words = asked(asking, grid, {"": net}, "direction")
    over, more = asked(asking, grid, {"": ib}, "direction")
    network |= {f"InfiniBand {name}": values for name, values in over.items()}
    return {
        "cpu": asked(asking, grid, {"mean": f"avg({cpu})", "highest": f"max({cpu})"}),
        "memory": asked(asking, grid, {"mean": f"avg({used})", "highest": f"max({used})"}),
        "network": (network, f"{words}\n{more}"),
    }


def _loss(asking: Asking, grid: Grid, own: str, step: str) -> Told:
    name = f"{m.TRAIN_LOSS.name}{{{own}}}[{step}]"
    return asked(
        asking, grid,
        {"mean": f"avg(avg_over_time({name}))", "highest": f"max(max_over_time({name}))"},
    )  # fmt: skip


def _throughput(asking: Asking, grid: Grid, own: str, rate: str, world: int) -> Told:
    """Of the whole run, as if all its ranks did what those that are asked do."""
    for name, metric in (("tokens", m.TRAIN_TOKENS), ("samples", m.TRAIN_SAMPLES)):
        query = f"avg(rate({metric.name}{{{own}}}[{rate}])) * {world}"
        found, words = asked(asking, grid, {name: query})
        if any(np.nan_to_num(values).any() for values in found.values()):
            return found, words
    return {}, ""


def _step(asking: Asking, grid: Grid, own: str, few: str, rate: str, scrape: float) -> Told:
    """Seconds of a step: one over steps per second, as the phases of a step are all of it."""
    wall = f"1 / (rate({m.TRAIN_STEPS.name}{{{own}}}[{rate}]) > 0)"
    queries = {f"p{round(100 * q)}": f"quantile({q}, {wall})" for q in (0.05, 0.5, 0.95)}
    if (grid.end - grid.start) / scrape <= MOST_LOOKS:
        short = lasting(max(2.5 * scrape, 1.0))
        inner = f"rate({m.TRAIN_STEPS.name}{{{few}}}[{short}])"
        least = f"min_over_time({inner}[{lasting(grid.step)}:{lasting(scrape)}])"
        queries["slowest"] = f"1 / (min({least} > 0))"
    return asked(asking, grid, queries)


def _phases(asking: Asking, grid: Grid, few: str, rate: str) -> Told:
    each = f"sum by (phase) (rate({m.TRAIN_PHASE.name}{{{few}}}[{rate}]))"
    query = f"{each} / ignoring (phase) group_left () (sum({each}) > 0)"
    found, words = asked(asking, grid, {"": query}, "phase")
    return {name: line for name, line in found.items() if np.nan_to_num(line).any()}, words


def _gpu(asking: Asking, grid: Grid, gpus: str, step: str) -> Told:
    name = f"{series(m.GPU_UTILIZATION.name, gpus)}[{step}]"
    return asked(
        asking, grid,
        {
            "p5": f"quantile(0.05, min_over_time({name}))",
            "p50": f"quantile(0.5, avg_over_time({name}))",
            "p95": f"quantile(0.95, max_over_time({name}))",
        },
    )  # fmt: skip
