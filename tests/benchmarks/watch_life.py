"""72 hours of a simulated cluster, watched: every finding opens once, closes once, is told once.

The clock is simulated, and so are Prometheus' answers, Alertmanager and verdicts (diagnoses take
most of the time); cycles, state on disk, archives, reports and delivery are real, and watch is
killed (kill -9) again and again. `python -m tests.benchmarks.watch_life HOURS SEED diagnoses` lives
shorter, and others, with real diagnoses.
"""

import logging
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from tests.watch.cluster_life import Days

HOURS = 72.0
GOALS = {"broken invariants": 0.0}


def main(hours: float = HOURS, seed: int = 0, oracle: bool = True) -> dict[str, float]:
    logging.disable(logging.CRITICAL)
    begin = process_time()
    with TemporaryDirectory() as folder:
        days = Days(Path(folder), seed, oracle=oracle)
        days.live(hours)
        counts = days.judged()
    sys.stdout.write("\n".join([*days.wrong, ""]))
    return {
        "simulated hours": hours,
        **{name: float(count) for name, count in sorted(counts.items())},
        "broken invariants": float(len(days.wrong)),
        "CPU seconds": process_time() - begin,
    }


if __name__ == "__main__":
    hours, seed, *diagnoses = [*sys.argv[1:], *(str(HOURS), "0")[len(sys.argv) - 1 :]]
    found = main(float(hours), int(seed), not diagnoses)
    sys.stdout.write("".join(f"{name}: {value:g}\n" for name, value in found.items()))
    sys.exit(any(found[name] > goal for name, goal in GOALS.items()))
