"""The charts of one GPU: everything that is known of it."""

from collections.abc import Mapping, Sequence

from analyzer.readers.prometheus.labels import Target
from analyzer.readers.prometheus.promql import lasting, of_targets, series, window
from collector.contract import metrics as m
from dashboard.shapes import Lines
from dashboard.sources.grid import Grid
from dashboard.sources.prometheus.asking import Asking
from dashboard.sources.prometheus.lines import asked, since, stands_for
from dashboard.sources.titles import GPU_CHARTS, lines


def gpu_charts(
    asking: Asking, targets: Sequence[Target], gpu: int, grid: Grid, scrape: float
) -> tuple[Lines, ...]:
    """Those of which anything is told, in their order."""
    pages, step, rate = of_targets(targets), lasting(grid.step), window(grid.step, scrape)

    def gauge(metric: m.Metric, how: str = "max", **equal: str) -> str:
        """One series: of a GPU with MIG devices the largest."""
        words = series(metric.name, pages, gpu=str(gpu), **equal)
        return f"max({how}_over_time({words}[{step}]))"

    def each(metric: m.Metric, by: str, how: str = "max", **equal: str) -> str:
        words = series(metric.name, pages, gpu=str(gpu), **equal)
        return f"max by ({by}) ({how}_over_time({words}[{step}]))"

    def flow(metric: m.Metric, by: str) -> str:
        return f"sum by ({by}) (rate({series(metric.name, pages, gpu=str(gpu))}[{rate}]))"

    def new(metric: m.Metric, by: str = "", **equal: str) -> str:
        return since(series(metric.name, pages, gpu=str(gpu), **equal), step, by)

    links = series(m.GPU_NVLINK_UP.name, pages, gpu=str(gpu))
    told: Mapping[str, tuple[Mapping[str, str], str]] = {
        "utilization": ({
            "utilisation": gauge(m.GPU_UTILIZATION, "avg"), "SM": gauge(m.GPU_SM_ACTIVE, "avg"),
            "tensor": gauge(m.GPU_TENSOR_ACTIVE, "avg"), "memory": gauge(m.GPU_DRAM_ACTIVE, "avg"),
        }, ""),
        "clock": ({
            "{domain}": each(m.GPU_CLOCK, "domain", "min"),
            "{domain}, most": each(m.GPU_CLOCK_MAX, "domain"),
        }, "domain"),
        "throttle": ({"{reason}": flow(m.GPU_CLOCK_EVENT_SECONDS, "reason")}, "reason"),
        "temperature": ({
            "{sensor}": each(m.GPU_TEMPERATURE, "sensor"),
        }, "sensor"),
        "margin": ({"margin": gauge(m.GPU_TEMPERATURE_MARGIN, "min")}, ""),
        "power": ({
            "draw": gauge(m.GPU_POWER),
            "limit: enforced": gauge(m.GPU_POWER_LIMIT, "min", kind="enforced"),
        }, ""),
        "memory": ({"used": gauge(m.GPU_MEMORY_USED), "total": gauge(m.GPU_MEMORY_TOTAL)}, ""),
        "ecc": ({
            "{type}": new(m.GPU_ECC_ERRORS, "type", counter="volatile"),
            "XIDs": new(m.GPU_XID_ERRORS),
        }, "type"),
        "pcie": ({
            "lanes": gauge(m.GPU_PCIE_WIDTH, "min"), "lanes, most": gauge(m.GPU_PCIE_WIDTH_MAX),
            "generation": gauge(m.GPU_PCIE_GENERATION, "min"),
            "generation, most": gauge(m.GPU_PCIE_GENERATION_MAX),
        }, ""),
        "pcie_traffic": ({"{direction}": flow(m.GPU_PCIE_BYTES, "direction")}, "direction"),
        "replays": ({"replays": new(m.GPU_PCIE_REPLAY)}, ""),
        "nvlink": ({"up": f"sum(min_over_time({links}[{step}]))"}, ""),
        "nvlink_traffic": ({"{direction}": flow(m.GPU_NVLINK_BYTES, "direction")}, "direction"),
        "nvlink_errors": ({"{kind}": new(m.GPU_NVLINK_ERRORS, "kind")}, "kind"),
    }  # fmt: skip
    sampling = stands_for(grid, scrape)
    found = []
    for key, title in GPU_CHARTS.items():
        values, words = asked(asking, grid, *told[key])
        if key == "temperature":
            limit = {"limit: {limit}": each(m.GPU_TEMPERATURE_LIMIT, "limit")}
            limits, more = asked(asking, grid, limit, "limit")
            values, words = values | limits, f"{words}\n{more}"
        found.append(
            lines(title, key, grid.times, values, sampling=sampling, query=words)
        )  # fmt: skip
    return tuple(chart for chart in found if chart.values)
