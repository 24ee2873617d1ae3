"""The charts of one GPU: everything that is known of it."""

from collections.abc import Mapping, Sequence

from collector.contract import metrics as m
from dashboard.shapes import Lines
from dashboard.sources.grid import Grid
from dashboard.sources.prometheus.asking import Asking
from dashboard.sources.prometheus.lines import asked
from dashboard.sources.prometheus.words import Target, lasting, of_targets, series, window
from dashboard.sources.titles import GPU_CHARTS, lines


def gpu_charts(
    asking: Asking, targets: Sequence[Target], gpu: int, grid: Grid, scrape: float
) -> tuple[Lines, ...]:
    """All of them, in their order."""
    pages, step, rate = of_targets(targets), lasting(grid.step), window(grid.step, scrape)

    def gauge(metric: m.Metric, how: str = "max", **equal: str) -> str:
        """One series: of a GPU with MIG devices the largest."""
        words = series(metric.name, pages, gpu=str(gpu), **equal)
        return f"max({how}_over_time({words}[{step}]))"

    def each(metric: m.Metric, by: str, how: str = "max", **equal: str) -> str:
        words = series(metric.name, pages, gpu=str(gpu), **equal)
        return f"max by ({by}) ({how}_over_time({words}[{step}]))"

    def grown(metric: m.Metric, by: str = "", **equal: str) -> str:
        words = f"rate({series(metric.name, pages, gpu=str(gpu), **equal)}[{rate}])"
        return f"sum by ({by}) ({words})" if by else f"sum({words})"

    told: Mapping[str, tuple[Mapping[str, str], str]] = {
        "utilization": ({
            "kernels": gauge(m.GPU_UTILIZATION, "avg"), "SM": gauge(m.GPU_SM_ACTIVE, "avg"),
            "tensor": gauge(m.GPU_TENSOR_ACTIVE, "avg"), "memory": gauge(m.GPU_DRAM_ACTIVE, "avg"),
        }, ""),
        "clock": ({"": each(m.GPU_CLOCK, "domain", "min")}, "domain"),
        "throttle": ({"": grown(m.GPU_CLOCK_EVENT_SECONDS, "reason")}, "reason"),
        "temperature": ({"": each(m.GPU_TEMPERATURE, "sensor")}, "sensor"),
        "margin": ({"margin": gauge(m.GPU_TEMPERATURE_MARGIN, "min")}, ""),
        "power": ({
            "draw": gauge(m.GPU_POWER), "limit": gauge(m.GPU_POWER_LIMIT, "min", kind="enforced"),
        }, ""),
        "memory": ({"used": gauge(m.GPU_MEMORY_USED), "total": gauge(m.GPU_MEMORY_TOTAL)}, ""),
        "ecc": ({"": grown(m.GPU_ECC_ERRORS, "type", counter="volatile")}, "type"),
        "pcie": ({"": grown(m.GPU_PCIE_BYTES, "direction")}, "direction"),
        "replay": ({"replays": grown(m.GPU_PCIE_REPLAY)}, ""),
        "nvlink": ({"": grown(m.GPU_NVLINK_BYTES, "direction")}, "direction"),
        "nvlink_errors": ({"": grown(m.GPU_NVLINK_ERRORS, "kind")}, "kind"),
    }  # fmt: skip
    sampling = f"each point stands for {grid.step:g} s" if grid.step > scrape else ""
    found = []
    for key, title in GPU_CHARTS.items():
        values, words = asked(asking, grid, *told[key])
        found.append(
            lines(title, key, grid.times, values, sampling=sampling, query=words)
        )  # fmt: skip
    return tuple(found)
