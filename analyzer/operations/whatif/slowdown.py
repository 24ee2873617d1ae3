"""The published quantities: S and its parts by type, replica, stage and worker.

Method: docs/method/what-if.md. Source: OSDI'25, arXiv 2505.05713, equations 1 to 5. All are ratios
of means over steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from lockstep.analyzer.operations.whatif.graph import MERGED, Graph
from lockstep.analyzer.operations.whatif.simulate import of_replica, simulate, step_seconds_with
from lockstep.analyzer.shapes.operations import Flags, Floats, Ints, Trace

WORST_SHARE = 0.03
"""Share of the workers that M_W is about."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """What some workers have to do with the slowdown.

    Attributes:
        workers: (dp, stage) of each.
        fixed: (S,) seconds a step with them ideal, the rest as it was.
        only: (S,) seconds a step with them as they were, the rest ideal.
        rem: Share of the lost time that goes when they are ideal; None when none was lost.
        add: Share of the lost time that they cause alone; None when none was lost.
    """

    workers: tuple[tuple[int, int], ...]
    fixed: Floats
    only: Floats
    rem: float | None
    add: float | None


@dataclass(frozen=True, slots=True)
class Slowdown:
    """S and its parts; times are (…, S) seconds a step.

    Attributes:
        simulated: T, without launch delay.
        ideal: T_ideal, one number: all steps are alike.
        by_type: T_t, only that type as it was; sends and receives of a direction are one type.
        by_dp: (D, S) only that replica as it was.
        by_stage: (P, S) only that stage as it was.
        worst: M_W, the attribution to the worst 3 % of the workers by S_w.
        last_stage: M_S.
    """

    simulated: Floats
    ideal: float
    by_type: Mapping[str, Floats]
    by_dp: Floats
    by_stage: Floats
    worst: Attribution
    last_stage: Attribution

    @property
    def s(self) -> float:
        """T / T_ideal (Eq. 1); the wasted share is 1 - 1/S."""
        return float(self.simulated.mean() / self.ideal)

    @property
    def s_steps(self) -> Floats:
        """(S,) the same of every step."""
        return self.simulated / self.ideal

    @property
    def s_types(self) -> dict[str, float]:
        """S_t (Eq. 2), the largest first."""
        ratios = {name: float(times.mean() / self.ideal) for name, times in self.by_type.items()}
        return dict(sorted(ratios.items(), key=lambda item: (-item[1], item[0])))

    @property
    def s_dp(self) -> Floats:
        """(D,) S of each replica."""
        ratios: Floats = self.by_dp.mean(axis=1) / self.ideal
        return ratios

    @property
    def s_pp(self) -> Floats:
        """(P,) S of each stage."""
        ratios: Floats = self.by_stage.mean(axis=1) / self.ideal
        return ratios

    @property
    def s_workers(self) -> Floats:
        """(D, P) S_w = min(S_dp, S_pp) (Eq. 4)."""
        return np.minimum(self.s_dp[:, None], self.s_pp[None, :])


def slowdown(trace: Trace, graph: Graph, own: Floats, ideal: Floats, simulated: Floats) -> Slowdown:
    """All published quantities of a trace.

    Args:
        trace: The operations.
        graph: What waits for what.
        own: (K, D, S) seconds, of `split_durations`.
        ideal: (K, 1, 1) seconds, of `published_ideals`.
        simulated: (S,) seconds a step, simulated without launch delay.
    """
    layout = trace.layout
    names = np.array([MERGED.get(name, name) for name in trace.optype.tolist()])
    types = np.unique(names)
    stages = np.arange(layout.pp)
    # One pass for all choices that concern every replica.
    keep = np.concatenate([
        names == types[:, None], trace.stage == stages[:, None], trace.stage[None, :] != stages[-1],
    ])  # fmt: skip
    times = step_seconds_with(graph, own, ideal, np.repeat(keep[:, :, None], layout.dp, axis=2))
    by_stage = times[len(types) : -1]
    everything = np.ones((layout.dp, len(own)), dtype=bool)
    by_dp = of_replica(graph, own, ideal, everything, np.arange(layout.dp))
    best = float(simulate(graph, ideal)[0])
    marginal = np.minimum(by_dp.mean(axis=1)[:, None], by_stage.mean(axis=1)[None, :])
    worst = worst_workers(marginal, trace.ranks)
    chosen = _flags(trace, worst)
    fixed, only = step_seconds_with(graph, own, ideal, np.stack([~chosen, chosen]))
    last = tuple((dp, layout.pp - 1) for dp in range(layout.dp))
    return Slowdown(
        simulated=simulated,
        ideal=best,
        by_type=dict(zip(types.tolist(), times[: len(types)], strict=True)),
        by_dp=by_dp,
        by_stage=by_stage,
        worst=attribution(worst, simulated, best, fixed, only),
        last_stage=attribution(last, simulated, best, times[-1], by_stage[-1]),
    )


def worst_workers(marginal: Floats, ranks: Ints) -> tuple[tuple[int, int], ...]:
    """The worst 3 % of the workers, at least one; of equals the lower rank."""
    count = ceil(WORST_SHARE * marginal.size)
    order = np.lexsort((ranks.reshape(-1), -marginal.reshape(-1)))[:count]
    return tuple((int(cell // marginal.shape[1]), int(cell % marginal.shape[1])) for cell in order)


def attribution(
    workers: tuple[tuple[int, int], ...], simulated: Floats, ideal: float, fixed: Floats,
    only: Floats,
) -> Attribution:  # fmt: skip
    """The shares of the time lost that fixing these workers gives back, and that they cause."""
    lost = float(simulated.mean()) - ideal
    some = abs(lost) > 1e-9 * ideal
    return Attribution(
        workers=workers,
        fixed=fixed,
        only=only,
        rem=(float(simulated.mean()) - float(fixed.mean())) / lost if some else None,
        add=(float(only.mean()) - ideal) / lost if some else None,
    )


def _flags(trace: Trace, workers: tuple[tuple[int, int], ...]) -> Flags:
    flags = np.zeros((len(trace.optype), trace.layout.dp), dtype=bool)
    for dp, stage in workers:
        flags[trace.stage == stage, dp] = True
    return flags
