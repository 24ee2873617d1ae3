"""Which replica the others wait for: who comes last to what all replicas do together."""

from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.whatif.graph import CLIP, OVERLAPPED, SCATTER
from lockstep.analyzer.shapes.operations import Flags, Floats, Trace
from lockstep.analyzer.stats.peer_groups import others_median
from lockstep.analyzer.stats.robust_stats import MOSTLY, mean
from lockstep.analyzer.stats.significance import TOLD


@dataclass(frozen=True, slots=True)
class Lateness:
    """When each replica arrives where gradients are reduced.

    Its wait is the same told from the other end: all leave together, so the last waits least.

    Attributes:
        late: (D, S) seconds after the middle of the other replicas, mean over stages.
        step: Seconds of a middle step.
        clock_error: Seconds within which the clocks of the replicas agree.
    """

    late: Floats
    step: float
    clock_error: float = 0.0

    @property
    def least(self) -> float:
        """Seconds that a replica must come later than the others to be the last of them.

        Those that come together within what is not worth a word are not distinguished; and of two
        clocks each may be wrong by the error, one early and the other late.
        """
        return max(TOLD * self.step, 2 * self.clock_error)

    @property
    def missing(self) -> tuple[str, ...]:
        """In words, what the clocks do not show."""
        if self.least <= TOLD * self.step:
            return ()
        error, least = 1e3 * np.array([self.clock_error, self.least])
        words = f"clocks agree within {error:.3g} ms: lateness under {least:.3g} ms is unknown"
        return (words,)

    def last(
        self, first: int = 0, stop: int | None = None, during: Flags | None = None
    ) -> int | None:
        """The replica that the others wait for in most steps; None = no single one.

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
        if often[latest] < MOSTLY or np.median(inside[latest]) < self.least:
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
            step = float(np.median(trace.end.max(axis=(0, 1))))
            return Lateness(late, step, trace.clock_error)
    return None
