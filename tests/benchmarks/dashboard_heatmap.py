"""The map of 10,000 simulated GPUs: on the server, on the wire, in a browser; and memory.

The server's time is that of the page's own work once the cache has the values: words, pictures and
their JSON, as `st.plotly_chart` writes it. In the browser, the page is changed from Help to Cluster
within the app, from the click until the chart stands and nothing is drawn any more.
"""

import os
from statistics import median
from time import perf_counter, process_time

import numpy as np
import plotly.io
import plotly.tools

from dashboard import source
from dashboard.figures import deviation, heatmap, histogram
from dashboard.shapes import FLEET_METRICS
from dashboard.words import places
from tests.benchmarks.dashboard_browser import CHROMIUM, visitor

GPUS, TRIES, SERVER_TRIES = 10_000, 10, 20
SOURCE = f'{{"kind": "simulated", "gpus": {GPUS}, "seed": 1}}'
GOALS = {
    "server, CPU ms, warm, median": 50.0,
    "wire of a page change, bytes, most": 150_000.0,
    "page change, s, p90": 1.0,
    "resident memory of the server, MB": 400.0,
}


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most."""
    figures = _server()
    if CHROMIUM is not None:
        figures |= _browser()
    return figures | {"load average over a minute": os.getloadavg()[0]}


def _server() -> dict[str, float]:
    fleet_source = source.opened({source.SOURCE: SOURCE})
    cpu, wall = [], []
    size = 0
    for _ in range(SERVER_TRIES + 1):
        begun, begun_cpu = perf_counter(), process_time()
        size = _page(fleet_source)
        wall.append(perf_counter() - begun)
        cpu.append(process_time() - begun_cpu)
    return {
        "server, CPU ms, warm, median": 1e3 * median(cpu[1:]),
        "server, wall ms, warm, median": 1e3 * median(wall[1:]),
        "server, wall ms, first": 1e3 * wall[0],
        "JSON of the figures, bytes": size,
    }


def _page(fleet_source: source.Cached) -> int:
    """What views.cluster does before Streamlit; returns the size of the figures."""
    fleet = fleet_source.fleet(FLEET_METRICS[0])
    away = deviation.of_fleet(fleet)
    worst = deviation.worst(fleet.metric, fleet.values, 20)
    places.fleet(fleet, away, heatmap.line(fleet, int(worst[0])))
    heatmap.ranked(fleet, 20)
    size = 0
    for picture in (heatmap.fleet(fleet), histogram.histogram(fleet)):
        figure = plotly.tools.return_figure_from_figure_or_data(picture.figure, True)
        size += len(plotly.io.to_json(figure, validate=False))
    return size


def _browser() -> dict[str, float]:
    with visitor({"kind": "simulated", "gpus": GPUS, "seed": 1}) as somebody:
        seconds, wire = [], []
        for _ in range(TRIES + 1):
            seconds.append(somebody.go("Cluster"))
            wire.append(somebody.received)
            somebody.go("Help")
        memory = somebody.resident_mb()
    # The first one loads Plotly into the browser, once for a visit.
    p50, p90 = np.quantile(seconds[1:], [0.5, 0.9])
    return {
        "page change, s, first": seconds[0], "page change, s, p50": float(p50),
        "page change, s, p90": float(p90), "wire of a page change, bytes, most": max(wire[1:]),
        "resident memory of the server, MB": memory,
    }  # fmt: skip
