"""Which replica the others wait for: who comes last to what all replicas do together."""

from dataclasses import dataclass

import numpy as np

from analyzer.operations import Flags, Floats, Trace
from analyzer.whatif.kinds import CLIP, OVERLAPPED, SCATTER
from analyzer.workers.middle import mean
from analyzer.workers.others import others_median

LEAST = 0.005
"""Share of a step; replicas that come together within it are not told apart."""
OFTEN = 0.6
"""Share of the steps in which the same replica must be the last."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """When each replica arrives where gradients are reduced.

    Its wait is the same told from the other end: all leave together, so the last waits least.

    Attributes:
        late: (D, S) seconds after the middle of the other replicas, mean over stages.
        step: Seconds of a middle step.
    """

    late: Floats
    step: float

    def last(
        self, first: int = 0, stop: int | None = None, during: Flags | None = None
    ) -> int | None:
        """The replica that the others wait for; None = no single one.

        Args:
            first: Place of the first step that counts.
            stop: The place after the last; None = to the end.
            during: (S,) which of them count; None = all.
        """
        inside = self.late[:, first:stop]
        if during is not None:
            inside = inside[:, during[first:stop]]
        if not inside.size or not np.isfinite(inside).all():
            return None
        often = np.bincount(np.argmax(inside, axis=0), minlength=len(inside)) / inside.shape[1]
        latest = int(np.argmax(often))
        if often[latest] < OFTEN or np.median(inside[latest]) < LEAST * self.step:
            return None
        return latest


def lateness(trace: Trace) -> Lateness | None:
    """Lateness at the first collective over replicas after the computations; None without one.

    Only differences inside one collective count: the clocks of replicas need to agree, the start
    of the step does not.
    """
    if trace.layout.dp < 2:
        return None
    for names in ((SCATTER, OVERLAPPED), (CLIP,)):
        rows = np.flatnonzero(trace.of(*names))
        if len(rows):
            arrival = trace.start[rows]
            late = mean(arrival - others_median(arrival, 1), 0)
            return Lateness(late, float(np.median(trace.end.max(axis=(0, 1)))))
    return None
