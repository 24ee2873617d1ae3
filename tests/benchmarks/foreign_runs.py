"""Verdicts on simulated runs of a third generator, by somebody who had read no code of ours.

FOREIGN_RUNS (60) injected runs and as many healthy or benign ones are made by
`tests.benchmarks.foreign`, diagnosed from their archives in two processes and graded, as
`independent_runs` does. FOREIGN_SEED (2026) makes other runs; FOREIGN_FOLDER keeps the archives,
and those that it has are not made again. Never tune on a seed and quote its figures.
"""

import os
from pathlib import Path

from tests.benchmarks import simulated_verdicts
from tests.benchmarks.foreign.runs import make, name_of, wanted
from tests.benchmarks.foreign.truth import read
from tests.benchmarks.simulated.grading import RunGrade

RUNS = int(os.environ.get("FOREIGN_RUNS", "60"))
SEED = int(os.environ.get("FOREIGN_SEED", "2026"))
FOLDER = Path(os.environ["FOREIGN_FOLDER"]) if "FOREIGN_FOLDER" in os.environ else None
GOALS = simulated_verdicts.GOALS


def main() -> dict[str, float]:
    return simulated_verdicts.measure(judged, wanted(SEED, RUNS))


def judged(kind: str, seed: int) -> RunGrade:
    """The grade of one run."""
    name = name_of(kind, seed)
    return simulated_verdicts.judge(name, FOLDER, lambda folder: make(folder, kind, seed), read)
