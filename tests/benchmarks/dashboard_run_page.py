"""The Run page of a day, as the server sees it: 8 ranks, 86,400 steps of 1 s, 16 GPUs at 15 s.

Simulated: no GPU was there and nothing was measured. What is timed is reading the archive into the
lines and events of the page and drawing its stack of charts, in a process of its own, first look
and second; Streamlit and the browser come on top (dashboard_run_browser). CPU is of all threads.
The same again of eight hours that are still being recorded: parts of 50 s, first look, and the look
after each new part.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from tests.dashboard.archives import Made, write

GOALS = {
    "run_page_seconds": 1.0, "new_part_cpu_seconds": 0.3, "spike_not_drawn": 0.0,
    "most_points_a_line": 1000.0, "resident_mb": 400.0,
}  # fmt: skip
DAY = Made(
    run="a-day", ranks_per_node=4, spare_gpus=4, steps=86_400, step_seconds=0.9,
    scrape_seconds=15.0, slow=2, onset=70_000, factor=1.1, xid=(1, 50_000, 94),
    spikes=((5, 60_000, 4.0),), checkpoint_every=3600, nvlinks=18, parts=1, ops=False,
)  # fmt: skip
LIVE = replace(DAY, run="live", steps=28_800, onset=20_000, xid=None, spikes=(), parts=576)
NEW_PARTS = 5


def main() -> dict[str, float]:
    """Figures; `run_page_seconds` is the first look, wall time."""
    figures: dict[str, float] = {}
    for made, look in ((DAY, "measured"), (LIVE, "growing")):
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), made)
            told = subprocess.run(
                [sys.executable, "-m", __name__, look, folder], check=True, capture_output=True
            )
        figures |= json.loads(told.stdout)
    return figures


def measured(folder: Path) -> dict[str, float]:
    """Two looks at the page of a day."""
    import numpy as np

    from lockstep.dashboard.sources.archive.source import ArchiveSource

    source = ArchiveSource(folder)
    figures: dict[str, float] = {}
    for look in ("run_page", "second_look"):
        wall, cpu = perf_counter(), process_time()
        lines, events, picture = _page(source)
        figures[f"{look}_seconds"] = perf_counter() - wall
        figures[f"{look}_cpu_seconds"] = process_time() - cpu
    step = next(each for each in lines if each.key == "step")
    slowest = step.steps[np.nanargmax(step.values["slowest rank"])]
    figures["most_points_a_line"] = float(max(len(each.times) for each in lines))
    figures["picture_bytes"] = float(_size(picture))
    figures["events"] = float(len(events))
    figures["spike_not_drawn"] = float(slowest != DAY.spikes[0][1])
    return figures | _memory()


def growing(folder: Path) -> dict[str, float]:
    """The first look at many parts, and one after each new part of both tables."""
    from lockstep.dashboard.sources.archive.source import ArchiveSource

    newest = [sorted((folder / name).glob("*.parquet"))[-NEW_PARTS:]
              for name in ("steps.parquet", "samples.parquet")]  # fmt: skip
    held = [[(path, path.rename(path.with_name(f".{path.name}.new"))) for path in parts]
            for parts in newest]  # fmt: skip
    source = ArchiveSource(folder)
    wall, cpu = perf_counter(), process_time()
    _page(source)
    figures = {
        "parts_of_each_table": float(LIVE.parts - NEW_PARTS),
        "parts_first_look_seconds": perf_counter() - wall,
        "parts_first_look_cpu_seconds": process_time() - cpu,
    }
    seconds = []
    for pair in zip(*held, strict=True):
        for path, hidden in pair:
            hidden.rename(path)
        cpu = process_time()
        _page(source)
        seconds.append(process_time() - cpu)
    return figures | {"new_part_cpu_seconds": sorted(seconds)[len(seconds) // 2]}


def _page(source: Any) -> tuple[Any, Any, Any]:
    from lockstep.dashboard.figures.lines import stack

    run = source.runs()[0]
    lines = source.run_lines(run.run, run.span)
    events = source.events(run.span, run.run)
    return lines, events, stack(lines, events, run.span)


def _size(picture: Any) -> int:
    """As it goes to the browser."""
    import plotly.graph_objects as go
    import plotly.io as pio

    return len(pio.to_json(go.Figure(picture.figure), validate=False) or "")


def _memory() -> dict[str, float]:
    """Without Streamlit: of the process now, and at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    told = {line.partition(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
    return {"resident_mb": int(told["VmRSS"]) / 1024, "resident_mb_most": int(told["VmHWM"]) / 1024}


if __name__ == "__main__":
    look, where = sys.argv[1:]
    sys.stdout.write(json.dumps({"measured": measured, "growing": growing}[look](Path(where))))
