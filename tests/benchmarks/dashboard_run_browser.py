"""The Run page of a day in a headless Chromium: from the click in the app until its charts stand.

The archive is that of `dashboard_run_page`: simulated, nothing of it was measured. Plotly is in the
browser already, as after any other page with a chart; the first look reads the archive.
"""

import tempfile
from pathlib import Path

from tests.benchmarks.dashboard_browser import CHROMIUM, visitor
from tests.benchmarks.dashboard_run_page import DAY
from tests.dashboard.archives import write

TRIES = 10
GOALS = {"page change, s, p90": 1.0}


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most; nothing without a Chromium."""
    if CHROMIUM is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        archive = write(Path(folder) / DAY.run, DAY)
        with visitor({"kind": "archive", "path": str(archive)}, f"&run={DAY.run}") as somebody:
            somebody.go("Cluster")
            return somebody.changes("Run", TRIES)
