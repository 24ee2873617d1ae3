"""What operations show, whoever recorded them: who is slow, who waits, what it costs, structure.

An observation and no verdict: who is named, and how the run is, the stages conclude
(lockstep.analyzer.verdict.pipeline).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lockstep.analyzer.operations.from_operations.words import evidence, given_back, let_go
from lockstep.analyzer.operations.structure import structures
from lockstep.analyzer.operations.structure.facts import Facts, Structure
from lockstep.analyzer.operations.trace_outliers import (
    Cells,
    Charge,
    Lateness,
    Suspect,
    cells,
    cost_of_suspects,
    judge,
    lateness,
    mended_own_times,
)
from lockstep.analyzer.operations.whatif import Unexplained, analyze, document
from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.intervals import FEWEST_STEPS
from lockstep.analyzer.shapes.operations import Trace
from lockstep.analyzer.shapes.run import Fact, Rejected
from lockstep.analyzer.stats.coverage import COVERAGE_AT_LEAST
from lockstep.analyzer.stats.significance import PARTS_ON_AVERAGE, WAKES
from lockstep.analyzer.stragglers.model.candidate import CERTAIN

UNCONFIRMED = 0.88
"""The most where the other replicas do not wait for the suspect's, chosen: its excess hides in
slack."""
REPLICAS = {
    1: "with one replica a worker that was slow from the first step looks like a heavy stage",
    2: "two replicas: a worker's own past decides, with less confidence",
}


@dataclass(frozen=True, slots=True)
class SlowWorker:
    """A suspect with what the operations tell of it.

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
        missing: What they cannot tell, in words.
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
    found = cells(trace)
    why = _too_little(trace, found)
    if found is None or why is not None:
        return Observed(trace, {"method": "none", "why": why})
    judgement, whatif, late = judge(found), analyze(trace), lateness(trace)
    missing = () if late is None else late.missing
    missing += tuple(words for dp, words in REPLICAS.items() if dp == trace.layout.dp)
    suspects, flags = judgement.suspects, judgement.flags()
    slow = tuple(_slow_worker(trace, one, late, cancelled=judgement.cancelled) for one in suspects)
    if isinstance(whatif, Unexplained):
        charge = None
        told = structures(Facts(trace, None, trace.duration, found, flags))
    else:
        charge = cost_of_suspects(trace, whatif.work.own, whatif.trust.simulated, suspects)
        mended = mended_own_times(trace, whatif.work.own, suspects)
        told = structures(Facts(trace, build(trace), mended, found, flags))
        slow = tuple(_charged(one, charge, number) for number, one in enumerate(slow))
    others = let_go(trace, found, judgement, late, told)
    return Observed(trace, document(whatif), slow, charge, told, others, missing)


def from_zero(trace: Trace) -> Trace:
    """Each step begins with its first operation; foreign clocks may count from elsewhere."""
    begin = trace.start.min(axis=(0, 1))
    if trace.observed is not None or not begin.any():
        return trace
    return replace(trace, start=trace.start - begin)


def _too_little(trace: Trace, found: Cells | None) -> str | None:
    """Why nothing can be said by the operations; None = it can."""
    timed = 0.0 if found is None else float(np.isfinite(found.ratio).mean())
    if timed < COVERAGE_AT_LEAST:
        return f"only {timed:.0%} of the computations have a duration"
    if trace.layout.workers < 2:
        return "the trace has one worker; a comparison needs two"
    if (steps := len(trace.steps)) < FEWEST_STEPS:
        count = "one step tells" if steps == 1 else f"{steps} steps tell"
        return f"{count} nothing about noise; it takes {FEWEST_STEPS}"
    return None


def _slow_worker(
    trace: Trace, one: Suspect, late: Lateness | None, *, cancelled: bool
) -> SlowWorker:
    agrees = late is not None and late.last(during=one.by_step > 0) == one.dp
    return SlowWorker(
        suspect=one,
        from_step=int(trace.steps[one.first]),
        to_step=None if one.last is None else int(trace.steps[one.last]),
        place_confidence=min(one.place_confidence, CERTAIN if agrees else UNCONFIRMED),
        facts=evidence(trace, one, late, cancelled=cancelled),
    )


def _charged(worker: SlowWorker, charge: Charge, number: int) -> SlowWorker:
    """A slow worker with what the simulation says that it costs."""
    one, gain, interval = worker.suspect, charge.gains[number], charge.intervals[number]
    # Healthy parts differ as much, and nobody knows that this one ever was faster.
    natural = one.first == 0 and one.last is None and one.excess < PARTS_ON_AVERAGE
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
