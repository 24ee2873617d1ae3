"""What the structures of a run are read from, and the shape of what is found."""

from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.trace_outliers import Cells
from lockstep.analyzer.operations.whatif.graph import Graph
from lockstep.analyzer.operations.whatif.kinds import COMPUTE
from lockstep.analyzer.operations.whatif.simulate import simulate
from lockstep.analyzer.shapes.operations import Flags, Floats, Trace
from lockstep.analyzer.stats.robust_stats import NEARLY_ALL
from lockstep.analyzer.stats.significance import WAKES_BY_BOUND

LONGER = WAKES_BY_BOUND
"""Share by which somebody computes longer than the others, from which it is worth a word: what
would wake somebody, were it a fault. Trace AR's last stage, with the loss, is 3 to 7 % longer."""
ALIKE = NEARLY_ALL
"""Share of replicas or steps that must show the same, where all are said to; and the least
correlation of forward and backward time of a micro-batch (OSDI'25, section 5.3)."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Something that costs time by the run's own design; no worker is to blame.

    Attributes:
        kind: A word of docs/reference/verdict.md.
        share: Share of the step time that goes without it, simulated with nobody slow; near 0 where
            slack hides it. None = could not be simulated.
        text: The facts in words.
    """

    kind: str
    share: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """A trace taken apart.

    Attributes:
        trace: The operations.
        graph: What waits for what; None where the model does not explain the trace.
        own: (K, D, S) seconds, of whatif.work.split, slow workers mended; durations without a
            graph.
        cells: Its computations.
        slow: (P, D) workers known to be slow; they tell nothing about structure.
    """

    trace: Trace
    graph: Graph | None
    own: Floats
    cells: Cells
    slow: Flags

    def share_without(self, factor: Floats) -> float | None:
        """Share of the step time that goes if every computation takes `factor` times as long.

        Args:
            factor: Broadcasts to (K, D, S); other operations stay as they are.
        """
        compute = self.trace.of(*COMPUTE)[:, None, None]
        return self.share_of(np.where(compute, self.own * factor, self.own))

    def share_of(self, changed: Floats) -> float | None:
        """Share of the step time that goes with other own times."""
        if self.graph is None:
            return None
        before, after = simulate(self.graph, self.own), simulate(self.graph, changed)
        return max(1 - float(after.mean() / before.mean()), 0.0)
