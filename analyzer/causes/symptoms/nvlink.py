"""The GPU's links to its neighbours: which are down, and what they had to send again."""

from lockstep.analyzer.causes.symptoms.series import EVENTS, WHOLE, Level, symptom, total
from lockstep.analyzer.causes.symptoms.shape import Symptom, with_more
from lockstep.analyzer.shapes.run import Finding, Grid
from lockstep.analyzer.stats.before_after import gpu_words, query
from lockstep.collector.contract import metrics

UP, ERRORS = metrics.GPU_NVLINK_UP.name, metrics.GPU_NVLINK_ERRORS.name


def nvlink(grid: Grid, finding: Finding) -> Symptom | None:
    """Links of the rank's GPU; None if it does not tell of them."""
    gpu = gpu_words(grid, finding.rank)

    def down(told: Level) -> str:
        normal = told.usual(WHOLE)
        return f"{normal - told.during:.0f} of {gpu}'s {normal:.0f} NVLinks are down"

    links = symptom(
        grid, finding, total(grid, UP), WHOLE, down, f"sum({query(grid, finding, UP)})",
        silent=f"{gpu}'s NVLinks are up",
    )  # fmt: skip
    errors = symptom(
        grid, finding, total(grid, ERRORS), EVENTS,
        lambda told: f"{gpu} counts {told.during:.0f} NVLink errors a second",
        f"sum({query(grid, finding, ERRORS)})",
        silent=f"{gpu} counts no NVLink errors", mild=True,
    )  # fmt: skip
    return with_more(links, errors, said=f"{gpu} counts", joined=", with")
