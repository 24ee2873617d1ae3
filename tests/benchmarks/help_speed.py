"""Wall time of `lockstep --help` as a process; the goal is 300 ms on an idle machine."""

import subprocess
import sys
from statistics import median
from time import perf_counter

TRIES = 20
GOALS = {"lockstep_help_seconds_median": 0.3}
MEASURED = {"lockstep_help": ["-m", "lockstep", "--help"], "python_alone": ["-c", "pass"]}


def main() -> dict[str, float]:
    """Minimum and median seconds over processes, the first (cold) one left out."""
    figures: dict[str, float] = {}
    for what, arguments in MEASURED.items():
        times = [_seconds(arguments) for _ in range(TRIES + 1)][1:]
        figures |= {f"{what}_seconds_min": min(times), f"{what}_seconds_median": median(times)}
    return figures


def _seconds(arguments: list[str]) -> float:
    begin = perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - begin
