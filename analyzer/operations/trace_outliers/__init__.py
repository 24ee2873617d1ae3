"""Which workers of an op trace are slow by their own doing: stage, work and noise taken out."""

from lockstep.analyzer.operations.trace_outliers.cells import Cells, cells
from lockstep.analyzer.operations.trace_outliers.charge import (
    Charge,
    cost_of_suspects,
    mended_own_times,
)
from lockstep.analyzer.operations.trace_outliers.lateness import Lateness, lateness
from lockstep.analyzer.operations.trace_outliers.suspects import (
    Judgement,
    Suspect,
    as_windows,
    judge,
)

__all__ = [
    "Cells", "Charge", "Judgement", "Lateness", "Suspect", "as_windows", "cells",
    "cost_of_suspects", "judge", "lateness", "mended_own_times",
]  # fmt: skip
