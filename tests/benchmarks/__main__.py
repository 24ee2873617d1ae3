"""`python -m tests.benchmarks [NAME]`: runs every benchmark, or the one that is named."""

import subprocess
import sys
from importlib import import_module

BENCHMARKS: dict[str, str] = {
    "collector": "the collector's page: serving, rendering, CPU, and its peers",
    "collector_memory": "the collector's resident memory over 100,000 pages",
    "help_speed": "wall time of `lockstep --help`",
    "recording": "CPU that recording adds to a training step",
}


def main(names: list[str]) -> int:
    if not names:
        # A process each: what one benchmark imports or starts must not burden the next.
        return max(
            subprocess.call([sys.executable, "-m", __spec__.name, name]) for name in BENCHMARKS
        )
    if len(names) > 1 or names[0] not in BENCHMARKS:
        print(f"give no name, or one of {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 64
    print(f"{names[0]}: {BENCHMARKS[names[0]]}", flush=True)
    benchmark = import_module(f"tests.benchmarks.{names[0]}")
    goals: dict[str, float] = getattr(benchmark, "GOALS", {})
    missed = 0
    for figure, value in benchmark.main().items():
        goal = f" (goal: at most {goals[figure]:g})" if figure in goals else ""
        print(f"  {figure}: {value:.4g}{goal}")
        missed |= figure in goals and value > goals[figure]
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
