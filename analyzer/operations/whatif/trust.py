"""Whether the model explains a trace well enough to be asked what if, and how far it is off."""

from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.whatif.graph import Graph
from lockstep.analyzer.operations.whatif.simulate import simulate
from lockstep.analyzer.operations.whatif.work import Work, launch_delay
from lockstep.analyzer.shapes.operations import Floats, Trace
from lockstep.analyzer.stats.changepoint import OUTSIDE_AT_LEAST

MOST = 0.05
"""Largest share by which simulation and reality may differ (OSDI'25, section 4)."""
STEPS = 0.95
"""Share of the steps that must fit: a stall of the scheduler spoils single ones."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Simulation beside reality, (S,) seconds a step.

    Attributes:
        traced: As it was.
        observed: As the run counted it; the traced where it did not.
        launched: Simulated with the launch delay of every operation: the self-check.
        simulated: Simulated without; everything else is compared with this.
        clock_error: Seconds within which the clocks of the ranks agree.
    """

    traced: Floats
    observed: Floats
    launched: Floats
    simulated: Floats
    clock_error: float = 0.0

    @property
    def launch_error(self) -> float:
        """Mean step time with launch delay over that without; 1 = the trace shows all work."""
        return float(self.launched.mean() / self.simulated.mean())

    @property
    def self_check(self) -> float:
        """Share by which steps simulated with launch delay differ from the traced, 95 % of them."""
        return float(np.quantile(np.abs(self.launched / self.traced - 1), STEPS))

    @property
    def discrepancy(self) -> float:
        """Share by which the mean observed step differs from the simulated."""
        return float(abs(self.observed.mean() / self.simulated.mean() - 1))

    def objection(self) -> str | None:
        """Why what-if cannot be asked, or None."""
        if not (self.traced.all() and self.observed.all() and self.simulated.all()):
            return "a step of this trace takes no time; its operations must have durations"
        if (error := self.clock_error / float(self.traced.mean())) > MOST:
            return (
                f"the clocks of the ranks agree only within {self.clock_error * 1e3:.3g} ms,"
                f" {error:.0%} of a step (at most {MOST:.0%}): transfers look the same as waits"
            )
        if (error := self.self_check) > MOST:
            return (
                f"the dependency model does not fit this trace: with every delay kept, a simulated"
                f" step still differs from the traced one by {error:.1%} (at most {MOST:.0%})"
            )
        if (error := self.discrepancy) > MOST:
            return (
                f"the operations explain only part of the step: simulated and observed step time"
                f" differ by {error:.1%} (at most {MOST:.0%})"
            )
        return None


def compare(trace: Trace, graph: Graph, work: Work) -> Trust:
    """The simulation of a trace as it was."""
    traced = trace.end[list(graph.last)].max(axis=(0, 1))
    return Trust(
        traced=traced,
        observed=traced if trace.observed is None else trace.observed,
        launched=simulate(graph, work.own, launch_delay(trace, graph)),
        simulated=simulate(graph, work.own),
        clock_error=trace.clock_error,
    )


RESAMPLES = 1000
LEVEL = 0.95
FEWEST_STEPS = OUTSIDE_AT_LEAST
"""As of blocks of windows: fewer say nothing about a change, nor about the noise between steps."""


def weights(steps: int, seed: int = 0) -> Floats | None:
    """(RESAMPLES, S) how often each step is drawn; None with too few steps.

    The steps are drawn with replacement (Efron 1979), with a fixed seed: the same trace gives the
    same interval.
    """
    if steps < FEWEST_STEPS:
        return None
    dice = np.random.default_rng(seed)
    return dice.multinomial(steps, np.full(steps, 1 / steps), size=RESAMPLES).astype(float)


def of_ratio(over: Floats, under: Floats, drawn: Floats | None) -> tuple[float, float] | None:
    """The interval of mean(over) / mean(under); None with too few steps or a denominator near 0.

    Args:
        over: (S,) a value a step.
        under: (S,) the same.
        drawn: Of `weights`.
    """
    if drawn is None:
        return None
    below = drawn @ under
    if np.min(np.abs(below)) <= 1e-9 * np.max(np.abs(drawn @ over), initial=1e-300):
        return None
    low, high = np.quantile((drawn @ over) / below, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
