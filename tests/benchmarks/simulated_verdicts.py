"""Verdicts on runs that a generator simulates: grades of many of them, and what those come to.

What `independent_runs` and `foreign_runs` share. Of what is found, a fault counts where anything in
the archive tells its place: the slow link of a network without sensors is nobody's to find. Each
run that is wrong or missed is a line on stderr.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import TRUTH_FILE
from tests.benchmarks.simulated.grading import FaultGrade, RunGrade, Truth, grade

LARGE, SMALL = 0.10, 0.03
"""Shares by which steps are longer."""
GOALS = {
    # Whoever is named is drained: of fifty, at most one healthy machine.
    "named_wrong_share": 0.02,
    # A tenth of a run's time pays for a look at it; what hides in noise or starts late may stay.
    "large_missed_share": 0.2,
    # Most runs are healthy, so that few of a hundred would be most of the alarms.
    "quiet_named_share": 0.01,
}


def measure(
    judged: Callable[[str, int], RunGrade], wanted: Sequence[tuple[str, int]]
) -> dict[str, float]:
    """Figures over `judged` of each kind and number, in two processes."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes, a core each
    grades: list[RunGrade] = []
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for graded in pool.map(judged, *zip(*wanted, strict=True)):
            grades.append(graded)
            if graded.right < graded.named or any(_missed(fault) for fault in graded.faults):
                print(graded.line, file=sys.stderr, flush=True)  # noqa: T201
    return figures(grades)


def judge(
    name: str, folder: Path | None, make: Callable[[Path], object],
    read: Callable[[Mapping[str, Any]], Truth],
) -> RunGrade:  # fmt: skip
    """Makes a run where `folder` has none of the name yet, diagnoses and grades it.

    Args:
        name: Of the archive, which `make` writes into the folder that it is given.
        folder: Keeps archives; None: they are gone once they are graded.
        read: The truth file's JSON as what grading needs of it.
    """
    with TemporaryDirectory(prefix="lockstep-simulated-") as scratch:
        parent = folder or Path(scratch)
        archive = parent / name
        if not (archive / TRUTH_FILE).exists():
            make(parent)
        run = load_archive(archive)
        verdict = verdict_json(diagnose(run).verdict)
        truth = read(bounded_json.loads((archive / TRUTH_FILE).read_bytes()))
    return grade(name, truth, verdict, {info.rank: info.node for info in run.ranks})


def figures(grades: Sequence[RunGrade]) -> dict[str, float]:
    """Counts, and shares of what they are of; a share of none is 0."""
    faults = [fault for each in grades for fault in each.faults]
    tellable = [fault for fault in faults if fault.tellable]
    large = [fault for fault in faults if _large(fault)]
    large_tellable = [fault for fault in large if fault.tellable]
    small = [fault for fault in faults if SMALL <= (fault.effect or 0.0) < LARGE]
    ends = [fault for fault in faults if fault.effect is None]
    found = [fault for fault in faults if fault.found]
    quiet = [each for each in grades if not each.injected]
    named, right = sum(each.named for each in grades), sum(each.right for each in grades)
    large_found = sum(fault.found for fault in large_tellable)
    cause_right = sum(fault.cause_right for fault in found)
    quiet_named = sum(each.named > 0 for each in quiet)
    told_healthy = sum(each.told_healthy and any(map(_large, each.faults)) for each in grades)
    return {
        "named": float(named),
        "named_right": float(right),
        "precision": right / named if named else 1.0,
        "named_wrong_share": _share(named - right, named),
        "tellable": float(len(tellable)),
        "tellable_found": float(sum(fault.found for fault in tellable)),
        "large": float(len(large)),
        "large_tellable": float(len(large_tellable)),
        "large_tellable_found": float(large_found),
        "large_missed_share": _share(len(large_tellable) - large_found, len(large_tellable)),
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
