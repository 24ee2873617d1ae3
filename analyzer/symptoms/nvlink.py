"""The GPU's links to its neighbours: which are down, and what they had to send again."""

import numpy as np

from analyzer.run import Finding, Grid
from analyzer.slowness.before_after import gpu_words, query
from analyzer.symptoms.make import symptom
from analyzer.symptoms.series import Level, level, total
from analyzer.symptoms.shape import Symptom
from collector.contract import metrics

ERRORS_PER_SECOND = 0.5
"""DCGM's health check rates any replay or recovery error FAIL and CRC errors beyond 100 a second
WARN; one in two seconds beyond before and the peers is between."""
UP, ERRORS = metrics.GPU_NVLINK_UP.name, metrics.GPU_NVLINK_ERRORS.name


def nvlink(grid: Grid, finding: Finding) -> Symptom | None:
    """Links of the rank's GPU; None if it does not tell of them."""
    links, errors = total(grid, UP), total(grid, ERRORS)
    up, wrong = level(grid, finding, links), level(grid, finding, errors)
    if up is None and wrong is None:
        return None
    gpu = gpu_words(grid, finding.rank)
    many = wrong is not None and wrong.during >= max(ERRORS_PER_SECOND, 2.0 * wrong.other)
    counted = f"{wrong.during:.0f} NVLink errors a second" if wrong is not None else ""
    if up is not None and links is not None:
        normal = up.before if np.isfinite(up.before) else up.peers
        down = normal - up.during
        if down > 0.5:
            words = f"{down:.0f} of {gpu}'s {normal:.0f} NVLinks are down"
            words += f", with {counted}" if many else ""
            return symptom(grid, finding, links, Level(normal, up.during, up.peers), text=words,
                           query=f"sum({query(grid, finding, UP)})", seen=True)  # fmt: skip
    if wrong is None or errors is None:
        return Symptom(False, f"{gpu}'s NVLinks are up", query(grid, finding, UP))
    return symptom(grid, finding, errors, wrong,
                   text=f"{gpu} counts {counted}" if many else f"{gpu} counts no NVLink errors",
                   query=f"sum({query(grid, finding, ERRORS)})",
                   seen=many, grave=False)  # fmt: skip
