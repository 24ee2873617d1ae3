"""The charts of a node: its GPUs beside the run's other GPUs, and its host."""

from collections.abc import Sequence

from collector.contract import metrics as m
from dashboard.shapes import Lines
from dashboard.sources.grid import Grid
from dashboard.sources.prometheus.asking import Asking
from dashboard.sources.prometheus.directory import Member, hardware, sample
from dashboard.sources.prometheus.lines import asked
from dashboard.sources.prometheus.run_charts import Told, nodes
from dashboard.sources.prometheus.words import Target, lasting, of_targets, series, window
from dashboard.sources.titles import NODE_CHARTS, lines

GAUGES = {
    "utilization": (m.GPU_UTILIZATION.name, {}),
    "temperature": (m.GPU_TEMPERATURE.name, {"sensor": "gpu"}),
    "power": (m.GPU_POWER.name, {}),
    "clock": (m.GPU_CLOCK.name, {"domain": "sm"}),
}
WORST = {"utilization": "avg", "temperature": "max", "power": "max", "clock": "min"}
"""What of a step is shown: the end that tells of trouble, so that no spike is lost."""


def node_charts(
    asking: Asking, targets: Sequence[Target], peers: Sequence[Member], grid: Grid, scrape: float
) -> tuple[Lines, ...]:
    """All of them, in their order; `peers` are ranks on other nodes."""
    pages, step, rate = of_targets(targets), lasting(grid.step), window(grid.step, scrape)
    _, others = hardware(sample(peers))
    host = nodes(asking, grid, targets, rate, step)
    told: dict[str, Told] = {
        "cpu": _called("busy", host["cpu"]),
        "memory": _called("used", host["memory"]),
        "network": host["network"],
        "disk": asked(
            asking, grid,
            {"": f"sum by (direction) (rate({series(m.DISK_BYTES.name, pages)}[{rate}]))"},
            "direction",
        ),
        "errors": _errors(asking, grid, pages, rate),
    }  # fmt: skip
    for key, (name, equal) in GAUGES.items():
        how = f"{WORST[key]}_over_time"
        query = f"max by (gpu) ({how}({series(name, pages, **equal)}[{step}]))"
        found, words = asked(asking, grid, {"": query}, "gpu")
        values = {
            f"GPU {gpu}": found[gpu] for gpu in sorted(found, key=lambda one: (len(one), one))
        }
        if others and values:
            theirs = f"{how}({series(name, others, **equal)}[{step}])"
            edges, more = asked(asking, grid, {
                "peers low": f"quantile(0.05, {theirs})", "peers high": f"quantile(0.95, {theirs})",
            })  # fmt: skip
            values, words = values | edges, f"{words}\n{more}"
        told[key] = values, words
    sampling = f"each point stands for {grid.step:g} s" if grid.step > scrape else ""
    return tuple(
        lines(
            title, key, grid.times, told[key][0], band=("peers low", "peers high"),
            sampling=sampling, query=told[key][1],
        )
        for key, title in NODE_CHARTS.items()
    )  # fmt: skip


def _called(name: str, told: Told) -> Told:
    """Of one node mean and highest are the same."""
    return {name: line for line in list(told[0].values())[:1]}, told[1]  # noqa: B035 - one at most


def _errors(asking: Asking, grid: Grid, pages: str, rate: str) -> Told:
    ecc = series(m.GPU_ECC_ERRORS.name, pages, type="uncorrected", counter="volatile")
    return asked(asking, grid, {
        "network": f"sum(rate({series(m.NET_ERRORS.name, pages)}[{rate}]))",
        "InfiniBand": f"sum(rate({series(m.IB_ERRORS.name, pages)}[{rate}]))",
        "XID": f"sum(rate({series(m.GPU_XID_ERRORS.name, pages)}[{rate}]))",
        "uncorrected memory": f"sum(rate({ecc}[{rate}]))",
    })  # fmt: skip
