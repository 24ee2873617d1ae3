"""The computations of a trace on regular axes: kind, micro-batch, stage, replica, step."""

from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.whatif.kinds import COMPUTE
from lockstep.analyzer.shapes.operations import Floats, Ints, Trace
from lockstep.analyzer.stats.robust_stats import mean, median


@dataclass(frozen=True, slots=True)
class Cells:
    """How long every computation took beside what is usual for its stratum.

    Attributes:
        ratio: (2, M, P, D, S) log own time of forward and backward of a micro-batch over the
            median of the stratum (kind, chunk, stage), the mean over chunks; NaN = not there.
        usual: (P, D) seconds a step that a worker computes, its median step.
        stage_steps: (P, S) seconds that the middle replica computes in a step.
        known: Whether micro-batches have numbers, so that the same one can be found on all stages.
    """

    ratio: Floats
    usual: Floats
    stage_steps: Floats
    known: bool

    @property
    def cancels(self) -> bool:
        """Whether the work of a micro-batch cancels between stages."""
        return self.known and self.ratio.shape[2] > 1


def cells(trace: Trace) -> Cells | None:
    """The computations of a trace; None where it has none that take time."""
    rows = np.flatnonzero(trace.of(*COMPUTE))
    if not len(rows) or not (trace.duration[rows] > 0).any():
        return None
    lane, known = _lanes(trace, rows)
    kind = (trace.optype[rows] == COMPUTE[1]).astype(np.int64)
    chunk = np.maximum(trace.chunk[rows], 0)
    seconds = trace.duration[rows]
    shape = (2, lane.max() + 1, chunk.max() + 1, trace.layout.pp, *seconds.shape[1:])
    logs = np.full(shape, np.nan)
    with np.errstate(divide="ignore"):
        logs[kind, lane, chunk, trace.stage[rows]] = np.where(seconds > 0, np.log(seconds), np.nan)
    base = median(logs, (1, -2, -1), keepdims=True)
    total = np.stack([seconds[trace.stage[rows] == p].sum(axis=0) for p in range(trace.layout.pp)])
    return Cells(
        ratio=mean(logs - base, 2),
        usual=np.median(total, axis=2),
        stage_steps=np.median(total, axis=1),
        known=known,
    )


def _lanes(trace: Trace, rows: Ints) -> tuple[Ints, bool]:
    """The micro-batch of each computation as a place from 0, and whether it is known."""
    numbers = trace.micro_batch[rows]
    places = np.stack([trace.optype[rows] == COMPUTE[1], trace.stage[rows], trace.chunk[rows],
                       numbers])  # fmt: skip
    if numbers.min() >= 0 and np.unique(places, axis=1).shape[1] == len(rows):
        return np.unique(numbers, return_inverse=True)[1], True
    return trace.seq[rows], False
