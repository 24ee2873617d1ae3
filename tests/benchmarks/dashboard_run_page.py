"""The Run page of a day, as the server sees it: 8 ranks, 86,400 steps of 1 s, 16 GPUs at 15 s.

Simulated: no GPU was there and nothing was measured. What is timed is reading the archive into the
lines and events of the page, in a process of its own, first look and second; pictures and the
browser come on top. CPU is of all threads.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from tests.dashboard.archives import Made, write

GOALS = {"run_page_seconds": 1.0, "spike_not_drawn": 0.0}
DAY = Made(
    run="a-day", ranks_per_node=4, spare_gpus=4, steps=86_400, step_seconds=0.9,
    scrape_seconds=15.0, slow=2, onset=70_000, factor=1.1, xid=(1, 50_000, 94),
    spikes=((5, 60_000, 4.0),), checkpoint_every=3600, nvlinks=18, parts=1, ops=False,
)  # fmt: skip


def main() -> dict[str, float]:
    """Figures; `run_page_seconds` is the first look, wall time."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), DAY)
        told = subprocess.run(
            [sys.executable, "-m", __name__, folder], check=True, capture_output=True
        )
    figures: dict[str, float] = json.loads(told.stdout)
    return figures


def measured(folder: Path) -> dict[str, float]:
    """Two looks at the page."""
    import numpy as np

    from dashboard.sources.archive import ArchiveSource

    source = ArchiveSource(folder)
    figures: dict[str, float] = {}
    for look in ("run_page", "second_look"):
        wall, cpu = perf_counter(), process_time()
        run = source.runs()[0]
        lines = source.run_lines(run.run, run.span)
        events = source.events(run.span, run.run)
        figures[f"{look}_seconds"] = perf_counter() - wall
        figures[f"{look}_cpu_seconds"] = process_time() - cpu
    step = next(each for each in lines if each.key == "step")
    assert step.steps is not None
    slowest = step.steps[np.nanargmax(step.values["slowest rank"])]
    figures["points"] = float(sum(len(each.times) for each in lines))
    figures["events"] = float(len(events))
    figures["spike_not_drawn"] = float(slowest != DAY.spikes[0][1])
    return figures


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(Path(sys.argv[1]))))
