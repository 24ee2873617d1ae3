"""Verdicts on simulated runs of a generator that knows nothing of our simulator or analyzer.

INDEPENDENT_RUNS (60) injected runs and as many healthy or benign ones are made by
`tests.benchmarks.independent`, diagnosed from their archives in two processes and graded. A fault
is injected whatever its size: how much longer steps are while it is there says how it counts.
INDEPENDENT_SEED (2026) makes other runs; INDEPENDENT_FOLDER keeps the archives, and those that
it has are not made again. Never tune on a seed and quote its figures.
"""

import os
from pathlib import Path

from tests.benchmarks import simulated_verdicts
from tests.benchmarks.independent.runs import HARD, MIXED, make, name_of
from tests.benchmarks.independent.truth import read
from tests.benchmarks.simulated.grading import RunGrade

RUNS = int(os.environ.get("INDEPENDENT_RUNS", "60"))
SEED = int(os.environ.get("INDEPENDENT_SEED", "2026"))
FOLDER = Path(os.environ["INDEPENDENT_FOLDER"]) if "INDEPENDENT_FOLDER" in os.environ else None
HARD_EVERY = 4
"""Of runs without a fault, one in so many is benign and looks like a fault."""
GOALS = simulated_verdicts.GOALS


def main() -> dict[str, float]:
    wanted = [(MIXED, 2 * number) for number in range(RUNS)]
    wanted += [
        (HARD, number) if number % HARD_EVERY == 0 else (MIXED, 2 * number + 1)
        for number in range(RUNS)
    ]
    return simulated_verdicts.measure(judged, wanted)


def judged(kind: str, number: int) -> RunGrade:
    """The grade of one run."""
    name = name_of(kind, SEED, number)
    return simulated_verdicts.judge(
        name, FOLDER, lambda folder: make(folder, kind, SEED, number), read
    )
