"""What if nobody had straggled: all of a trace's counterfactuals, or why they cannot be had."""

from dataclasses import dataclass

import numpy as np

from analyzer.operations import Floats, Trace
from analyzer.whatif.candidates import TOP, Candidate, candidates
from analyzer.whatif.dependencies import build
from analyzer.whatif.graph import Graph, ModelError
from analyzer.whatif.ideals import published_ideals, stratum_ideals
from analyzer.whatif.intervals import of_ratio, weights
from analyzer.whatif.simulate import simulate
from analyzer.whatif.slowdown import Slowdown, slowdown
from analyzer.whatif.trust import Trust, compare
from analyzer.whatif.work import Work, split_durations

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
        s_workers_interval: (D, P, 2) the same of every S_w; None with too few steps.
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
    s_workers_interval: Floats | None
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
    found = slowdown(trace, graph, work.own, ideal, simulated)
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
        published=found,
        strata_steps=strata_steps,
        candidates=candidates(
            trace, graph, work.own, ideal, healthy, found, strata_steps, drawn, top
        ),
        s_interval=of_ratio(simulated, np.full_like(simulated, found.ideal), drawn),
        s_strata_interval=of_ratio(simulated, strata_steps, drawn),
        m_w_interval=of_ratio(simulated - found.worst.fixed, simulated - found.ideal, drawn),
        s_workers_interval=_of_workers(found, drawn),
        notes=tuple(notes),
    )


def _of_workers(found: Slowdown, drawn: Floats | None) -> Floats | None:
    """(D, P, 2) the interval of every S_w."""
    if drawn is None:
        return None
    steps = drawn.sum(axis=1)[0]
    dp = found.by_dp @ drawn.T / steps / found.ideal
    stage = found.by_stage @ drawn.T / steps / found.ideal
    each = [np.quantile(np.minimum(one, stage), [0.025, 0.975], axis=1).T for one in dp]
    return np.stack(each)
