"""The map of 10,000 made-up GPUs: on the server, on the wire, in a browser; and memory.

The server's time is that of the page's own work once the cache has the values: words, the picture
and its JSON, as `st.plotly_chart` writes it. In the browser, the page is changed from Help to
Cluster within the app, from the click until the chart stands and nothing is drawn any more; beside
it the same to a page that is almost empty. `BENCH_PRIORITY=-15` gives all of it priority.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import plotly.io
import plotly.tools

from lockstep.dashboard.figures import deviation, heatmap
from lockstep.dashboard.shapes import FLEET_METRICS
from lockstep.dashboard.sources import cache, opened
from lockstep.dashboard.words import places
from tests.benchmarks.dashboard_browser import CHROMIUM, visitor
from tests.dashboard.archives import Made, write

GPUS, TRIES, SERVER_TRIES = 10_000, 10, 20
ON_A_NODE = 8
GOALS = {
    "server, CPU ms, warm, median": 50.0,
    "wire of a page change, bytes, most": 150_000.0,
    "page change, s, p90": 1.0,
    "resident memory of the server, MB": 400.0,
}


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most."""
    with fleet(GPUS) as archive:
        figures = _server(archive)
        if CHROMIUM is not None:
            with visitor(archive) as somebody:
                figures |= somebody.changes("Cluster", TRIES)
    return figures


@contextmanager
def fleet(gpus: int) -> Iterator[dict[str, str]]:
    """The source of an archive of one run on so many GPUs: two scrapes, a few steps."""
    names = tuple(f"node-{number:04}" for number in range(gpus // ON_A_NODE))
    made = Made(
        node_names=names, ranks_per_node=ON_A_NODE, steps=8, slow=gpus // 3, onset=2, nvlinks=0,
        parts=1, ops=False,
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        yield {"kind": "archive", "path": str(write(Path(folder) / "run", made))}


def _server(archive: dict[str, str]) -> dict[str, float]:
    fleet_source = opened.opened({opened.SOURCE: json.dumps(archive)})
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


def _page(fleet_source: cache.Cached) -> int:
    """What views.cluster does before Streamlit; returns the size of the figure."""
    shown = fleet_source.fleet(FLEET_METRICS[0])
    away = deviation.of_fleet(shown)
    worst = deviation.worst(shown.metric, shown.values, 20)
    places.fleet(shown, away, heatmap.line(shown, int(worst[0])))
    heatmap.ranked(shown, 20)
    drawn = heatmap.fleet(shown).figure
    figure = plotly.tools.return_figure_from_figure_or_data(drawn, True)
    return len(plotly.io.to_json(figure, validate=False))
