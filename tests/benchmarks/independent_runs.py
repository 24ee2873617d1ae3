"""Verdicts on simulated runs of a generator that knows nothing of our simulator or analyzer.

INDEPENDENT_RUNS (60) injected runs and as many healthy or benign ones are made by
`tests.benchmarks.independent`, diagnosed from their archives in two processes and graded. A fault
is injected whatever its size: how much longer steps are while it is there says how it counts.
INDEPENDENT_SEED (2026) makes other runs; INDEPENDENT_FOLDER keeps the archives, and those that
it has are not made again. Each run that is wrong or missed is a line on stderr.

Of what is found, a fault counts where anything in the archive tells its place: the slow link of a
network without sensors is nobody's to find. Never tune on a seed and quote its figures.
"""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from analyzer.pipeline import diagnose
from analyzer.readers.archive import load
from analyzer.verdict_json import verdict_json
from collector.contract import bounded_json
from collector.contract.archive import TRUTH_FILE
from tests.benchmarks.independent.grading import FaultGrade, RunGrade, grade
from tests.benchmarks.independent.runs import HARD, MIXED, make

RUNS = int(os.environ.get("INDEPENDENT_RUNS", "60"))
SEED = int(os.environ.get("INDEPENDENT_SEED", "2026"))
FOLDER = Path(os.environ["INDEPENDENT_FOLDER"]) if "INDEPENDENT_FOLDER" in os.environ else None
LARGE, SMALL = 0.10, 0.03
"""Shares by which steps are longer."""
HARD_EVERY = 4
"""Of runs without a fault, one in so many is benign and looks like a fault."""
GOALS = {
    # Whoever is named is drained: of fifty, at most one healthy machine.
    "named_wrong_share": 0.02,
    # A tenth of a run's time pays for a look at it; what hides in noise or starts late may stay.
    "large_missed_share": 0.2,
    # Most runs are healthy, so that few of a hundred would be most of the alarms.
    "quiet_named_share": 0.01,
}


def main() -> dict[str, float]:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes, a core each
    wanted = [(MIXED, 2 * number) for number in range(RUNS)]
    wanted += [
        (HARD, number) if number % HARD_EVERY == 0 else (MIXED, 2 * number + 1)
        for number in range(RUNS)
    ]
    grades: list[RunGrade] = []
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for graded in pool.map(judged, *zip(*wanted, strict=True)):
            grades.append(graded)
            if graded.right < graded.named or any(_missed(fault) for fault in graded.faults):
                print(graded.line, file=sys.stderr, flush=True)  # noqa: T201
    return figures(grades)


def judged(kind: str, number: int) -> RunGrade:
    """Makes a run where it is not there yet, diagnoses and grades it."""
    with TemporaryDirectory(prefix="lockstep-independent-") as scratch:
        folder = FOLDER or Path(scratch)
        archive = folder / f"{kind}-{SEED}-{number:03d}"
        if not (archive / TRUTH_FILE).exists():
            archive = make(folder, kind, SEED, number)
        run = load(archive)
        verdict = verdict_json(diagnose(run).verdict)
        truth = bounded_json.loads((archive / TRUTH_FILE).read_bytes())
    return grade(archive.name, truth, verdict, {info.rank: info.node for info in run.ranks})


def figures(grades: Sequence[RunGrade]) -> dict[str, float]:
    """Counts, and shares of what they are of; a share of none is 0."""
    faults = [fault for each in grades for fault in each.faults]
    large = [fault for fault in faults if _large(fault)]
    tellable = [fault for fault in large if fault.tellable]
    small = [fault for fault in faults if SMALL <= (fault.effect or 0.0) < LARGE]
    ends = [fault for fault in faults if fault.effect is None]
    found = [fault for fault in faults if fault.found]
    quiet = [each for each in grades if not each.injected]
    named, right = sum(each.named for each in grades), sum(each.right for each in grades)
    large_found = sum(fault.found for fault in tellable)
    cause_right = sum(fault.cause_right for fault in found)
    quiet_named = sum(each.named > 0 for each in quiet)
    told_healthy = sum(each.told_healthy and any(map(_large, each.faults)) for each in grades)
    return {
        "named": float(named),
        "named_right": float(right),
        "precision": right / named if named else 1.0,
        "named_wrong_share": _share(named - right, named),
        "large": float(len(large)),
        "large_tellable": float(len(tellable)),
        "large_tellable_found": float(large_found),
        "large_missed_share": _share(len(tellable) - large_found, len(tellable)),
        "large_told_healthy": float(told_healthy),
        "small": float(len(small)),
        "small_found": float(sum(fault.found for fault in small)),
        "ends": float(len(ends)),
        "ends_found": float(sum(fault.found for fault in ends)),
        "found": float(len(found)),
        "found_cause_right": float(cause_right),
        "cause_right_share": _share(cause_right, len(found)),
        "quiet": float(len(quiet)),
        "quiet_named": float(quiet_named),
        "quiet_named_share": _share(quiet_named, len(quiet)),
    }


def _large(fault: FaultGrade) -> bool:
    return fault.effect is not None and fault.effect >= LARGE


def _missed(fault: FaultGrade) -> bool:
    """Of those that should have been found: not of small ones."""
    return not fault.found and (fault.effect is None or (_large(fault) and fault.tellable))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
