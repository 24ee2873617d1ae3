"""The map of 10,000 simulated GPUs: on the server, on the wire, in a browser; and memory.

The server's time is that of the page's own work once the cache has the values: words, the picture
and its JSON, as `st.plotly_chart` writes it. In the browser, the page is changed from Help to
Cluster within the app, from the click until the chart stands and nothing is drawn any more; beside
it the same to a page that is almost empty. `BENCH_PRIORITY=-15` gives all of it priority.
"""

from statistics import median
from time import perf_counter, process_time

import plotly.io
import plotly.tools

from lockstep.dashboard import source
from lockstep.dashboard.figures import deviation, heatmap
from lockstep.dashboard.shapes import FLEET_METRICS
from lockstep.dashboard.words import places
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
    return figures


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
        "JSON of the figure, bytes": size,
    }


def _page(fleet_source: source.Cached) -> int:
    """What views.cluster does before Streamlit; returns the size of the figure."""
    fleet = fleet_source.fleet(FLEET_METRICS[0])
    away = deviation.of_fleet(fleet)
    worst = deviation.worst(fleet.metric, fleet.values, 20)
    places.fleet(fleet, away, heatmap.line(fleet, int(worst[0])))
    heatmap.ranked(fleet, 20)
    drawn = heatmap.fleet(fleet).figure
    figure = plotly.tools.return_figure_from_figure_or_data(drawn, True)
    return len(plotly.io.to_json(figure, validate=False))


def _browser() -> dict[str, float]:
    with visitor({"kind": "simulated", "gpus": GPUS, "seed": 1}) as somebody:
        return somebody.changes("Cluster", TRIES)
