"""The charts of a node: its GPUs beside the run's other GPUs, and its host."""

from collections.abc import Sequence

from analyzer.readers.prometheus.labels import Target
from analyzer.readers.prometheus.promql import lasting, of_targets, series, window
from collector.contract import metrics as m
from dashboard.shapes import Lines
from dashboard.sources.grid import Grid
from dashboard.sources.prometheus.asking import Asking
from dashboard.sources.prometheus.directory import Member, hardware, sample
from dashboard.sources.prometheus.lines import asked, since, stands_for
from dashboard.sources.prometheus.run_charts import Told, nodes
from dashboard.sources.titles import BUSY, IN_USE, NODE_CHARTS, PEERS, lines

GAUGES = {
    "utilization": (m.GPU_UTILIZATION.name, {}),
    "temperature": (m.GPU_TEMPERATURE.name, {"sensor": "gpu"}),
    "power": (m.GPU_POWER.name, {}),
    "clock": (m.GPU_CLOCK.name, {"domain": "sm"}),
}
ERRORS = {
    "XIDs": m.GPU_XID_ERRORS, "PCIe replays": m.GPU_PCIE_REPLAY,
    "NVLink errors": m.GPU_NVLINK_ERRORS, "InfiniBand errors": m.IB_ERRORS,
    "network errors": m.NET_ERRORS, "network drops": m.NET_DROPS,
    "link changes": m.NET_CARRIER_CHANGES, "kills for memory": m.OOM_KILLS,
}  # fmt: skip
WORST = {"utilization": "avg", "temperature": "max", "power": "max", "clock": "min"}
"""What of a step is shown: the end that tells of trouble, so that no spike is lost."""


def node_charts(
    asking: Asking, targets: Sequence[Target], peers: Sequence[Member], grid: Grid, scrape: float
) -> tuple[Lines, ...]:
    """All of them, in their order; `peers` are ranks on other nodes."""
    pages, step, rate = of_targets(targets), lasting(grid.step), window(grid.step, scrape)
    _, others = hardware(sample(peers))
    disk = f"rate({series(m.DISK_BYTES.name, pages)}[{rate}])"
    host = nodes(asking, grid, targets, rate, step)
    told: dict[str, Told] = {
        "cpu": _called(BUSY, host["cpu"]),
        "memory": _called(IN_USE, host["memory"]),
        "network": host["network"],
        "disk": asked(asking, grid, {"{direction}": f"sum by (direction) ({disk})"}, "direction"),
        "errors": _errors(asking, grid, pages, step),
    }  # fmt: skip
    for key, (name, equal) in GAUGES.items():
        how = f"{WORST[key]}_over_time"
        query = f"max by (gpu) ({how}({series(name, pages, **equal)}[{step}]))"
        found, words = asked(asking, grid, {"GPU {gpu}": query}, "gpu")
        values = {gpu: found[gpu] for gpu in sorted(found, key=lambda one: (len(one), one))}
        if others and values:
            theirs = f"{how}({series(name, others, **equal)}[{step}])"
            edges, more = asked(asking, grid, {
                name: f"quantile({share}, {theirs})"
                for name, share in zip(PEERS, (0.05, 0.95), strict=True)
            })  # fmt: skip
            values, words = values | edges, f"{words}\n{more}"
        told[key] = values, words
    sampling = stands_for(grid, scrape)
    return tuple(
        lines(
            title, key, grid.times, told[key][0], band=PEERS,
            sampling=sampling, query=told[key][1],
        )
        for key, title in NODE_CHARTS.items()
    )  # fmt: skip


def _called(name: str, told: Told) -> Told:
    """Of one node mean and highest are the same."""
    return {name: line for line in list(told[0].values())[:1]}, told[1]  # noqa: B035 - one at most


def _errors(asking: Asking, grid: Grid, pages: str, step: str) -> Told:
    """What each of ERRORS counted; memory errors by type."""
    ecc = since(series(m.GPU_ECC_ERRORS.name, pages, counter="volatile"), step, "type")
    found, words = asked(asking, grid, {"memory errors, {type}": ecc}, "type")
    told, more = asked(
        asking, grid,
        {name: since(series(one.name, pages), step) for name, one in ERRORS.items()},
    )  # fmt: skip
    return found | told, f"{words}\n{more}"
