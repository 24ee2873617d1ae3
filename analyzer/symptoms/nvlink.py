"""The GPU's links to its neighbours: which are down, and what they had to send again."""

from dataclasses import replace

import numpy as np

from analyzer.run import Finding, Grid
from analyzer.slowness.before_after import gpu_words, query
from analyzer.symptoms.make import EVENTS, MILD, WHOLE, deviations, symptom
from analyzer.symptoms.series import level, total
from analyzer.symptoms.shape import Symptom
from collector.contract import metrics

UP, ERRORS = metrics.GPU_NVLINK_UP.name, metrics.GPU_NVLINK_ERRORS.name


def nvlink(grid: Grid, finding: Finding) -> Symptom | None:
    """Links of the rank's GPU; None if it does not tell of them."""
    links, errors = total(grid, UP), total(grid, ERRORS)
    up, wrong = level(grid, finding, links), level(grid, finding, errors)
    if up is None and wrong is None:
        return None
    gpu = gpu_words(grid, finding.rank)
    many = wrong is not None and deviations(wrong, EVENTS) >= MILD
    counted = f"{wrong.during:.0f} NVLink errors a second" if wrong is not None else ""
    if up is not None and np.isfinite(up.before):
        up = replace(up, peers=float("nan"))  # they may have fewer
    if up is not None and links is not None and deviations(up, WHOLE) >= MILD:
        normal = up.usual(lower=True)
        words = f"{normal - up.during:.0f} of {gpu}'s {normal:.0f} NVLinks are down"
        return symptom(grid, finding, links, up, WHOLE, text=words + f", with {counted}" * many,
                       query=f"sum({query(grid, finding, UP)})")  # fmt: skip
    if wrong is None or errors is None:
        return Symptom(False, f"{gpu}'s NVLinks are up", query(grid, finding, UP))
    return symptom(grid, finding, errors, wrong, EVENTS, mild=True,
                   text=f"{gpu} counts {counted}", silent=f"{gpu} counts no NVLink errors",
                   query=f"sum({query(grid, finding, ERRORS)})")  # fmt: skip
