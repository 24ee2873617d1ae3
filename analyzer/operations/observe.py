"""What operations show, whoever recorded them: who is slow, who waits, what it costs, structure.

An observation and no verdict: who is named, and how the run is, the stages conclude
(lockstep.analyzer.verdict.pipeline).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lockstep.analyzer.operations.evidence import evidence, given_back, let_go
from lockstep.analyzer.operations.lateness import Lateness, lateness
from lockstep.analyzer.operations.outliers import Cells, Suspect, judge, trace_cells
from lockstep.analyzer.operations.structure import Facts, Structure, structures
from lockstep.analyzer.operations.whatif.analysis import Unexplained, analyze, document
from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import COMPUTE
from lockstep.analyzer.operations.whatif.simulate import simulate
from lockstep.analyzer.operations.whatif.trust import FEWEST_STEPS, of_ratio, weights
from lockstep.analyzer.shapes.operations import Floats, Trace
from lockstep.analyzer.shapes.run import Fact, Rejected
from lockstep.analyzer.stats.coverage import COVERAGE_AT_LEAST
from lockstep.analyzer.stats.significance import PARTS_ON_AVERAGE, WAKES
from lockstep.analyzer.stragglers.confidence import CERTAIN

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Charge:
    """The cost of suspects, in shares of the step.

    Attributes:
        gains: What the run gains if one suspect alone is mended.
        intervals: Of each gain, 95 %; None with too few steps.
        effects: In its own steps, the larger of a suspect's gain and of what it costs if all the
            others are mended: of two, the slower hides the other.
        slowdown: Step time over that with all mended.
        interval: Of `slowdown`.
        lost_seconds: Seconds that all suspects cost, over all steps seen.
    """

    gains: tuple[float, ...]
    intervals: tuple[Interval | None, ...]
    effects: tuple[float, ...]
    slowdown: float
    interval: Interval | None
    lost_seconds: float


def cost_of_suspects(
    trace: Trace, own: Floats, simulated: Floats, suspects: Sequence[Suspect]
) -> Charge:
    """Simulates the run with each suspect mended, and with all.

    Args:
        trace: The operations.
        own: (K, D, S) seconds, of `split_durations`.
        simulated: (S,) seconds a step as it was.
        suspects: Whom to mend; their computations are divided by what they took too long.
    """
    graph = build(trace)
    drawn = weights(len(trace.steps))

    def times(some: Sequence[Suspect]) -> Floats:
        return simulate(graph, mended_own_times(trace, own, some))

    everyone = times(suspects)
    alone = [times([suspect]) for suspect in suspects]
    others = [times([two for two in suspects if two is not suspect]) for suspect in suspects]
    whole = float(simulated.mean())
    return Charge(
        gains=tuple(1 - float(steps.mean()) / whole for steps in alone),
        intervals=tuple(of_ratio(simulated - steps, simulated, drawn) for steps in alone),
        effects=tuple(
            float(max((simulated - mine)[during].mean(), (hidden - everyone)[during].mean()))
            / float(simulated[during].mean())
            for suspect, mine, hidden in zip(suspects, alone, others, strict=True)
            for during in [slice(suspect.first, suspect.last)]
        ),
        slowdown=whole / float(everyone.mean()),
        interval=of_ratio(simulated, everyone, drawn),
        lost_seconds=float((simulated - everyone).sum()),
    )


def mended_own_times(trace: Trace, own: Floats, suspects: Sequence[Suspect]) -> Floats:
    """Own times, (K, D, S) seconds, with the suspects at the pace of their peers."""
    changed = own.copy()
    compute = trace.of(*COMPUTE)
    for suspect in suspects:
        rows = np.flatnonzero(compute & (trace.stage == suspect.stage))
        changed[rows, suspect.dp] /= np.exp(suspect.by_step)
    return changed


UNCONFIRMED = 0.88
"""The most where the other replicas do not wait for the suspect's, chosen: its excess hides in
slack."""
REPLICAS = {
    1: "with one replica a worker that was slow from the first step looks like a heavy stage",
    2: "two replicas: a worker's own past decides, with less confidence",
}


@dataclass(frozen=True, slots=True)
class SlowWorker:
    """A suspect with what the operations show.

    Attributes:
        suspect: Who, when and by how much.
        from_step: The first slow step.
        to_step: The step after the last; None = to the end.
        place_confidence: Probability that it is this worker.
        facts: For and against; the first says that it is slow.
        fix: What mending it gives back, as in `Verdict.what_if`; None without a simulation.
        wakes: Whether the run gains enough by that to wake somebody, and it is slower than healthy
            parts are.
    """

    suspect: Suspect
    from_step: int
    to_step: int | None
    place_confidence: float
    facts: tuple[Fact, ...]
    fix: Mapping[str, Any] | None = None
    wakes: bool = False

    @property
    def slowdown(self) -> float:
        """Its own time over what it should be."""
        return float(np.exp(self.suspect.excess))


@dataclass(frozen=True, slots=True)
class Observed:
    """What the operations of a trace show.

    Attributes:
        trace: The operations.
        what_if: As of analyzer.operations.whatif, without fixes of anybody who is named; `why`
            where the run cannot be simulated.
        slow: Who is slow, the clearest first. Durations show it, whatever the simulation explains.
        charge: What these cost; None without a simulation.
        structures: What costs time by design.
        rejected: Who is not slow, or not known to be, and why.
        missing: What they cannot show, in words.
    """

    trace: Trace
    what_if: Mapping[str, Any]
    slow: tuple[SlowWorker, ...] = ()
    charge: Charge | None = None
    structures: tuple[Structure, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    missing: tuple[str, ...] = ()


def observe(trace: Trace) -> Observed:
    """What the operations of a trace show; its steps begin at 0 (`from_zero`)."""
    cells = trace_cells(trace)
    why = _too_little(trace, cells)
    if cells is None or why is not None:
        return Observed(trace, {"method": "none", "why": why})
    judgement, whatif, late = judge(cells), analyze(trace), lateness(trace)
    missing = () if late is None else late.missing
    missing += tuple(words for dp, words in REPLICAS.items() if dp == trace.layout.dp)
    suspects, flags = judgement.suspects, judgement.flags()
    slow = tuple(
        _slow_worker(trace, suspect, late, cancelled=judgement.cancelled) for suspect in suspects
    )
    if isinstance(whatif, Unexplained):
        charge = None
        costs_by_design = structures(Facts(trace, None, trace.duration, cells, flags))
    else:
        charge = cost_of_suspects(trace, whatif.work.own, whatif.trust.simulated, suspects)
        mended = mended_own_times(trace, whatif.work.own, suspects)
        costs_by_design = structures(Facts(trace, build(trace), mended, cells, flags))
        slow = tuple(_charged(worker, charge, number) for number, worker in enumerate(slow))
    others = let_go(trace, cells, judgement, late, costs_by_design)
    return Observed(trace, document(whatif), slow, charge, costs_by_design, others, missing)


def from_zero(trace: Trace) -> Trace:
    """Each step begins with its first operation; foreign clocks may count from elsewhere."""
    begin = trace.start.min(axis=(0, 1))
    if trace.observed is not None or not begin.any():
        return trace
    return replace(trace, start=trace.start - begin)


def _too_little(trace: Trace, cells: Cells | None) -> str | None:
    """Why nothing can be said by the operations; None = it can."""
    timed = 0.0 if cells is None else float(np.isfinite(cells.ratio).mean())
    if timed < COVERAGE_AT_LEAST:
        return f"only {timed:.0%} of the computations have a duration"
    if trace.layout.workers < 2:
        return "the trace has one worker; a comparison needs two"
    if (steps := len(trace.steps)) < FEWEST_STEPS:
        count = "one step shows" if steps == 1 else f"{steps} steps show"
        return f"{count} nothing about noise; it takes {FEWEST_STEPS}"
    return None


def _slow_worker(
    trace: Trace, suspect: Suspect, late: Lateness | None, *, cancelled: bool
) -> SlowWorker:
    agrees = late is not None and late.last(during=suspect.by_step > 0) == suspect.dp
    return SlowWorker(
        suspect=suspect,
        from_step=int(trace.steps[suspect.first]),
        to_step=None if suspect.last is None else int(trace.steps[suspect.last]),
        place_confidence=min(suspect.place_confidence, CERTAIN if agrees else UNCONFIRMED),
        facts=evidence(trace, suspect, late, cancelled=cancelled),
    )


def _charged(worker: SlowWorker, charge: Charge, number: int) -> SlowWorker:
    """A slow worker with what the simulation says that it costs."""
    suspect, gain, interval = worker.suspect, charge.gains[number], charge.intervals[number]
    # Healthy parts differ as much, and nobody knows that this one ever was faster.
    natural = suspect.first == 0 and suspect.last is None and suspect.excess < PARTS_ON_AVERAGE
    return replace(
        worker,
        facts=(*worker.facts, given_back(gain, interval)),
        fix={
            "gain": gain,
            "interval": None if interval is None else list(interval),
            "by": "simulation",
            "over": "all steps seen",
        },
        wakes=charge.effects[number] >= WAKES and not natural,
    )
