"""Which workers of an op trace are slow by their own doing: stage, work and noise taken out."""

from analyzer.workers.accuse import Suspect
from analyzer.workers.cells import Cells, cells
from analyzer.workers.charge import Charge, charge, mended
from analyzer.workers.judge import Judgement, judge
from analyzer.workers.lateness import Lateness, lateness

__all__ = [
    "Cells", "Charge", "Judgement", "Lateness", "Suspect", "cells", "charge", "judge", "lateness",
    "mended",
]  # fmt: skip
