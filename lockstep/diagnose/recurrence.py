"""What past runs beside an archive know of its culprits."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.analyzer.verdict.pipeline import Diagnosis


def with_recurrence(diagnosed: "Diagnosis", archive: Path) -> "Diagnosis":
    """The diagnosis with the recurrence of its culprits over the archives in the same folder.

    Nothing is read where nobody was named; what could not be read is counted in `missing`.
    """
    import numpy as np

    from lockstep.analyzer.read.verdicts import siblings
    from lockstep.analyzer.verdict.cost.recurrence import recurrence

    verdict, grid = diagnosed.verdict, diagnosed.grid
    ends = grid.end[np.isfinite(grid.end)]
    if not ends.size or not any(culprit.node for culprit in verdict.culprits):
        return diagnosed
    past = siblings(archive)
    told = recurrence(
        verdict, past,
        ended=float(ends.max()), emulated=diagnosed.run.meta.get("emulated_nodes") is True,
    )  # fmt: skip
    missing = list(verdict.missing)
    if past.skipped:
        missing.append(f"{past.skipped} past runs in the same folder cannot be read")
    if past.left_out:
        missing.append(f"{past.left_out} older folders beside this run were not looked at")
    return replace(diagnosed, verdict=replace(verdict, recurrence=told, missing=tuple(missing)))
