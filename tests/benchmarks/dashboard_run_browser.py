"""The Run page of a day in a headless Chromium: from the click in the app until its charts stand.

The archive is that of `dashboard_run_page`: simulated, nothing of it was measured. Plotly is in the
browser already, as after any other page with a chart; the first look reads the archive.
"""

import os
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks.dashboard_browser import CHROMIUM, visitor
from tests.benchmarks.dashboard_run_page import DAY
from tests.dashboard.archives import write

TRIES = 10
GOALS = {"page change, s, p90": 1.0}


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most; nothing without a Chromium."""
    figures = {"load average over a minute": os.getloadavg()[0]}
    if CHROMIUM is None:
        return figures
    with tempfile.TemporaryDirectory() as folder:
        archive = write(Path(folder) / DAY.run, DAY)
        with visitor({"kind": "archive", "path": str(archive)}, f"&run={DAY.run}") as somebody:
            somebody.go("Cluster")
            somebody.go("Help")
            seconds, wire = [], []
            for _ in range(TRIES + 1):
                seconds.append(somebody.go("Run"))
                wire.append(somebody.received)
                somebody.go("Help")
            memory = somebody.resident_mb()
    p50, p90 = np.quantile(seconds[1:], [0.5, 0.9])
    return figures | {
        "page change, s, first": seconds[0], "page change, s, p50": float(p50),
        "page change, s, p90": float(p90), "wire of a page change, bytes, most": max(wire),
        "resident memory of the server, MB": memory,
    }  # fmt: skip
