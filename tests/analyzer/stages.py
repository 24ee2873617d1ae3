"""The stages of the verdict for findings that a test makes itself."""

from lockstep.analyzer.verdict.case import Case, blank
from lockstep.analyzer.verdict.pipeline import STAGES, causes, diagnose, hardware, through


def verdict_of(grid, findings, gpu_hour_price=None):
    """The verdict of findings, through the stages after those that find them.

    Without hardware, the one stage of them that reads the run itself.
    """
    later = [stage for stage in STAGES[STAGES.index(causes) :] if stage is not hardware]
    case = Case(None, grid, blank(grid), gpu_hour_price, findings=tuple(findings))
    return through(later, case).verdict


def verdict_of_trace(trace, gpu_hour_price=None):
    """The verdict about operations that are all there is of a run, through all stages."""
    return diagnose(trace, gpu_hour_price=gpu_hour_price).verdict
