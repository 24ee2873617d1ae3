"""For how long a program stands still while its stacks are read, and how long reading takes.

A program with torch loaded and 8 threads looks at the clock all the time and tells every gap; in
each of ROUNDS rounds its stacks are read once (Python's by py-spy, native ones, faulthandler's) and
then, for as long as that took, nothing is done. The longest gap of either is compared: what both
have is the machine's.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract.stacks import SIGNAL_VARIABLE, Depth, Reader
from lockstep.collector.on_demand import py_spy
from lockstep.collector.on_demand.stacks import Asked, read_stacks

ROUNDS = 60
SECONDS = 30.0
GOALS = {"failed": 0}
PROGRAM = """
import sys, threading, time
from pathlib import Path
import torch
from lockstep.workloads.measure.heartbeat import stacks_on_signal
stacks_on_signal(Path(sys.argv[1]), "run", 0)
for _ in range(7):
    threading.Thread(target=time.sleep, args=(100000,), daemon=True).start()
told = open(Path(sys.argv[1]) / "gaps", "w", buffering=1)
print("ready", flush=True)
before = time.monotonic_ns()
while True:
    now = time.monotonic_ns()
    if now - before > 200_000:
        told.write(f"{before} {now}\\n")
        now = time.monotonic_ns()
    before = now
"""


def main() -> dict[str, float]:
    """Milliseconds, as medians over the rounds; `idle` are gaps while nobody reads."""
    figures: dict[str, float] = {"failed": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, name],
            stdout=subprocess.PIPE,
            env={SIGNAL_VARIABLE: "USR2"},
        )
        assert child.stdout is not None
        try:
            child.stdout.readline()
            asked = Asked(0, "node-0", child.pid, folder / "stacks-run-0", os.geteuid())
            for how, depth in (
                ("python", Depth.PYTHON),
                ("native", Depth.NATIVE),
                ("faulthandler", Depth.PYTHON),
            ):
                if how == "faulthandler":
                    py_spy.program = lambda: None
                figures |= _measured(how, depth, asked, folder, figures)
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
    return figures


def _measured(
    how: str, depth: Depth, asked: Asked, folder: Path, figures: dict[str, float]
) -> dict[str, float]:
    wanted = Reader.FAULTHANDLER if how == "faulthandler" else Reader.PY_SPY
    spans = []
    for _ in range(ROUNDS):
        begin = time.monotonic_ns()
        [told] = read_stacks([asked], depth, Path("/proc"), SystemClock(), SECONDS)
        end = time.monotonic_ns()
        figures["failed"] += told.reader is not wanted or told.native is not (how == "native")
        time.sleep((end - begin) / 1e9)
        spans.append((begin, end, time.monotonic_ns()))
    gaps = [
        (int(each[0]), int(each[1]))
        for line in (folder / "gaps").read_text().splitlines()
        if len(each := line.split()) == 2
    ]
    read = [_longest(gaps, begin, end) for begin, end, _ in spans]
    idle = [_longest(gaps, end, after) for _, end, after in spans]
    took = [(end - begin) / 1e6 for begin, end, _ in spans]
    return {
        f"{how}_took_ms": round(median(took), 2),
        f"{how}_pause_ms": round(median(read), 2),
        f"{how}_idle_ms": round(median(idle), 2),
    }


def _longest(gaps: list[tuple[int, int]], begin: int, end: int) -> float:
    """Milliseconds of the longest gap that overlaps the span, within it."""
    inside = [min(end, last) - max(begin, first) for first, last in gaps]
    return max([0, *inside]) / 1e6
