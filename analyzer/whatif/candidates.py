"""Which workers to fix first, and what each fix would give."""

from dataclasses import dataclass

import numpy as np

from analyzer.operations import Floats, Ints, Trace
from analyzer.whatif.graph import Graph
from analyzer.whatif.intervals import of_ratio
from analyzer.whatif.kinds import GROUPED
from analyzer.whatif.scenarios import of_replica, step_seconds_with
from analyzer.whatif.slowdown import Slowdown

TOP = 20
"""Candidates by default: whoever matters is among the first few."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker and what it costs.

    Attributes:
        dp: Its replica.
        stage: Its stage.
        excess: Seconds a step that its own work takes longer than its stratum's.
        gain: Share of the step time that goes when its operations take what its stratum's do,
            work and stage as they are.
        interval: Of `gain`; None with too few steps.
        alone: Share of the step time that it would cost if all others were as their strata.
        rem: Share of the published lost time that goes when it is ideal; None when none is lost.
        add: Share of the published lost time that it causes alone; None when none is lost.
    """

    dp: int
    stage: int
    excess: float
    gain: float
    interval: tuple[float, float] | None
    alone: float
    rem: float | None
    add: float | None

    @property
    def share(self) -> float:
        """The mean of `gain` and `alone`: with two slow workers, their Shapley values.

        Of two, the slower hides the other behind it: fixing the other alone gives nothing.
        """
        return (self.gain + self.alone) / 2


def candidates(
    trace: Trace, graph: Graph, own: Floats, ideal: Floats, strata: Floats, found: Slowdown,
    strata_steps: Floats, drawn: Floats | None, top: int = TOP,
) -> tuple[Candidate, ...]:  # fmt: skip
    """The `top` workers, the largest share first.

    They are chosen by two rankings in turn, because each misses what the other sees: the published
    S_w (a heavy stage or replica hides a worker behind it), and the excess of local work (a slow
    link has none).

    Args:
        trace: The operations.
        graph: What waits for what.
        own: (K, D, S) seconds, of work.split.
        ideal: (K, 1, 1) seconds, of ideals.published.
        strata: (K, D, S) seconds, of ideals.strata.
        found: The published quantities.
        strata_steps: (S,) seconds a step with all as their strata.
        drawn: Of intervals.weights.
        top: How many.
    """
    excess = excess_seconds(trace, own, strata)
    chosen = _choose(found.s_workers, excess, trace.ranks, top)
    dp, stage = np.divmod(chosen, trace.layout.pp)
    here = trace.stage == stage[:, None]
    only = of_replica(graph, own, ideal, here, dp)
    keep = ~(here[:, :, None] & (np.arange(trace.layout.dp) == dp[:, None, None]))
    fixed = step_seconds_with(graph, own, ideal, keep)
    healthy = step_seconds_with(graph, own, strata, keep)
    alone = step_seconds_with(graph, own, strata, ~keep)
    simulated = found.simulated
    lost = simulated - found.ideal
    some = abs(lost.mean()) > 1e-9 * found.ideal
    result = [
        Candidate(
            dp=int(dp[number]),
            stage=int(stage[number]),
            excess=float(excess[dp[number], stage[number]]),
            gain=float(1 - healthy[number].mean() / simulated.mean()),
            interval=of_ratio(simulated - healthy[number], simulated, drawn),
            alone=float((alone[number] - strata_steps).mean() / simulated.mean()),
            rem=float((simulated - fixed[number]).mean() / lost.mean()) if some else None,
            add=float((only[number] - found.ideal).mean() / lost.mean()) if some else None,
        )
        for number in range(len(chosen))
    ]
    return tuple(sorted(result, key=lambda one: (-one.share, one.dp, one.stage)))


def excess_seconds(trace: Trace, own: Floats, strata: Floats) -> Floats:
    """(D, P) seconds a step that local work takes longer than the stratum's, transfers excluded."""
    local = ~trace.of(*GROUPED)
    more = (own[local] - strata[local]).mean(axis=2)
    stage = trace.stage[local]
    return np.stack([more[stage == p].sum(axis=0) for p in range(trace.layout.pp)], axis=1)


def _choose(marginal: Floats, excess: Floats, ranks: Ints, top: int) -> Ints:
    """Cells of the first `top` workers of two rankings in turn, without repeats."""
    orders = [np.lexsort((ranks.reshape(-1), -by.reshape(-1))) for by in (excess, marginal)]
    turns = np.stack(orders, axis=1).reshape(-1)
    _, first = np.unique(turns, return_index=True)
    return turns[np.sort(first)][:top]
