"""What if nobody had straggled: all of a trace's counterfactuals, or why they cannot be had."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import GROUPED, Graph, ModelError
from lockstep.analyzer.operations.whatif.simulate import of_replica, simulate, step_seconds_with
from lockstep.analyzer.operations.whatif.slowdown import Slowdown, slowdown
from lockstep.analyzer.operations.whatif.trust import Trust, compare, of_ratio, weights
from lockstep.analyzer.operations.whatif.work import (
    Work,
    published_ideals,
    split_durations,
    stratum_ideals,
)
from lockstep.analyzer.shapes.operations import Floats, Ints, Trace

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
    trace: Trace, graph: Graph, own: Floats, ideal: Floats, strata: Floats, published: Slowdown,
    strata_steps: Floats, drawn: Floats | None, top: int = TOP,
) -> tuple[Candidate, ...]:  # fmt: skip
    """The `top` workers, the largest share first.

    They are chosen by two rankings in turn, because each misses what the other sees: the published
    S_w (a heavy stage or replica hides a worker behind it), and the excess of local work (a slow
    link has none).

    Args:
        trace: The operations.
        graph: What waits for what.
        own: (K, D, S) seconds, of `split_durations`.
        ideal: (K, 1, 1) seconds, of `published_ideals`.
        strata: (K, D, S) seconds, of `stratum_ideals`.
        published: The published quantities.
        strata_steps: (S,) seconds a step with all as their strata.
        drawn: Of `weights`.
        top: How many.
    """
    excess = excess_seconds(trace, own, strata)
    chosen = _choose(published.s_workers, excess, trace.ranks, top)
    dp, stage = np.divmod(chosen, trace.layout.pp)
    here = trace.stage == stage[:, None]
    only = of_replica(graph, own, ideal, here, dp)
    keep = ~(here[:, :, None] & (np.arange(trace.layout.dp) == dp[:, None, None]))
    fixed = step_seconds_with(graph, own, ideal, keep)
    healthy = step_seconds_with(graph, own, strata, keep)
    alone = step_seconds_with(graph, own, strata, ~keep)
    simulated = published.simulated
    lost = simulated - published.ideal
    some = abs(lost.mean()) > 1e-9 * published.ideal
    result = [
        Candidate(
            dp=int(dp[number]),
            stage=int(stage[number]),
            excess=float(excess[dp[number], stage[number]]),
            gain=float(1 - healthy[number].mean() / simulated.mean()),
            interval=of_ratio(simulated - healthy[number], simulated, drawn),
            alone=float((alone[number] - strata_steps).mean() / simulated.mean()),
            rem=float((simulated - fixed[number]).mean() / lost.mean()) if some else None,
            add=float((only[number] - published.ideal).mean() / lost.mean()) if some else None,
        )
        for number in range(len(chosen))
    ]
    return tuple(
        sorted(result, key=lambda candidate: (-candidate.share, candidate.dp, candidate.stage))
    )


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


Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Unexplained:
    """The model cannot be asked; `why` is a sentence.

    Attributes:
        why: The reason.
        trust: Simulation beside reality, where there was one.
    """

    why: str
    trust: Trust | None = None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The counterfactuals of a trace.

    Attributes:
        trust: Simulation beside reality.
        work: The operations taken apart, (K, D, S).
        published: S and its parts as OSDI'25 defines them.
        strata_steps: (S,) seconds a step with every operation as its stratum: heavy stages and
            long sequences are no loss here.
        candidates: The workers to fix first.
        s_interval: 95 % interval of S over steps; None with too few.
        s_strata_interval: The same of S_strata.
        m_w_interval: The same of M_W.
        notes: What the numbers leave out, in words.
    """

    trust: Trust
    work: Work
    published: Slowdown
    strata_steps: Floats
    candidates: tuple[Candidate, ...]
    s_interval: Interval | None
    s_strata_interval: Interval | None
    m_w_interval: Interval | None
    notes: tuple[str, ...] = ()

    @property
    def s(self) -> float:
        """The published S: T over T_ideal, structure included."""
        return self.published.s

    @property
    def s_strata(self) -> float:
        """Our own S: T over the time with every operation as its stratum, structure excluded."""
        return float(self.trust.simulated.mean() / self.strata_steps.mean())


def analyze(trace: Trace, top: int = TOP) -> WhatIf | Unexplained:
    """All counterfactuals of a trace.

    Args:
        trace: The operations.
        top: How many workers to try to fix.
    """
    if trace.layout.workers < 2:
        return Unexplained("the trace has one worker; what-if compares workers with each other")
    try:
        graph = build(trace)
    except ModelError as error:
        return Unexplained(str(error))
    work = split_durations(trace, graph)
    trust = compare(trace, graph, work)
    objection = trust.objection()
    if objection is not None:
        return Unexplained(objection, trust)
    return _whatif(trace, graph, work, trust, top)


def _whatif(trace: Trace, graph: Graph, work: Work, trust: Trust, top: int) -> WhatIf:
    simulated = trust.simulated
    ideal, healthy = published_ideals(trace, work.own), stratum_ideals(trace, work.own)
    published = slowdown(trace, graph, work.own, ideal, simulated)
    strata_steps = simulate(graph, healthy)
    drawn = weights(len(trace.steps))
    notes = []
    if drawn is None:
        notes.append(f"{len(trace.steps)} steps are too few for intervals")
    if trace.layout.pp < 2:
        notes.append("without pipeline stages, longer sequences count as slowness in S_strata")
    return WhatIf(
        trust=trust,
        work=work,
        published=published,
        strata_steps=strata_steps,
        candidates=candidates(
            trace, graph, work.own, ideal, healthy, published, strata_steps, drawn, top
        ),
        s_interval=of_ratio(simulated, np.full_like(simulated, published.ideal), drawn),
        s_strata_interval=of_ratio(simulated, strata_steps, drawn),
        m_w_interval=of_ratio(
            simulated - published.worst.fixed, simulated - published.ideal, drawn
        ),
        notes=tuple(notes),
    )


def worker_name(dp: int, stage: int) -> str:
    """A worker where nobody knows its node."""
    return f"dp {dp} stage {stage}"


def document(
    result: WhatIf | Unexplained, name: Callable[[int, int], str] = worker_name
) -> dict[str, Any]:
    """The keys of docs/reference/verdict.md, and after them what the method adds.

    `S` and what hangs on it are as published; `S_strata` and `fixes` are ours: structure is no
    loss there. `S_steps` is S of every step.

    Args:
        result: Of `analyze`.
        name: From dp and stage to what is to be removed, as the node.
    """
    if isinstance(result, Unexplained):
        return {"method": "none", "why": result.why}
    slow = result.published
    return {
        "method": "simulation",
        "S": slow.s,
        "S_t": slow.s_types,
        "S_dp": {str(dp): float(s) for dp, s in enumerate(slow.s_dp)},
        "S_pp": {str(stage): float(s) for stage, s in enumerate(slow.s_pp)},
        "M_W": slow.worst.rem,
        "M_S": slow.last_stage.rem,
        "fixes": [
            {
                "remove": name(candidate.dp, candidate.stage),
                "gain": candidate.gain,
                "interval": _pair(candidate.interval),
            }
            for candidate in result.candidates
            if candidate.gain > 0
        ],
        "S_interval": _pair(result.s_interval),
        "S_strata": result.s_strata,
        "S_strata_interval": _pair(result.s_strata_interval),
        "M_W_interval": _pair(result.m_w_interval),
        "M_W_add": slow.worst.add,
        "M_S_add": slow.last_stage.add,
        "S_w": [[float(s) for s in stages] for stages in slow.s_workers],
        "S_steps": [float(s) for s in slow.s_steps],
        "launch_error": result.trust.launch_error,
        "notes": list(result.notes),
    }


def _pair(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)
