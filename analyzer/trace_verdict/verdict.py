"""A Trace -> the Verdict of docs/reference/verdict.md."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analyzer.model.candidate import CERTAIN
from analyzer.model.precision import OPERATIONS
from analyzer.operations import Trace
from analyzer.run import Culprit, Rejected, Verdict
from analyzer.slowness.coverage import COVERAGE_AT_LEAST, KNOWN_AT_LEAST
from analyzer.slowness.robust_stats import NOTHING, interval_95
from analyzer.slowness.significance import WAKES
from analyzer.structure import structures
from analyzer.structure.facts import LONGER, Facts, Structure
from analyzer.trace_outliers import (
    Cells,
    Charge,
    Judgement,
    Lateness,
    cells,
    cost_of_suspects,
    judge,
    lateness,
    mended_own_times,
)
from analyzer.trace_verdict.words import evidence, healthy_sentence, sentence
from analyzer.whatif import Unexplained, WhatIf, analyze, document
from analyzer.whatif.dependencies import build
from analyzer.whatif.intervals import FEWEST_STEPS
from analyzer.wording import HOUR, NAMED

UNCONFIRMED = 0.88
"""The most where the other replicas do not wait for the suspect's, chosen: its excess hides in
slack."""
NO_TELEMETRY = "an op trace has no telemetry of nodes: causes are not known"
ONE_REPLICA = "with one replica a worker that was slow from the first step looks like a heavy stage"
TWO_REPLICAS = "two replicas: a worker's own past decides, with less confidence"


@dataclass(frozen=True, slots=True)
class _Case:
    """All that is known about a trace that can be judged."""

    trace: Trace
    cells: Cells
    judgement: Judgement
    late: Lateness | None
    whatif: WhatIf
    charge: Charge
    structures: tuple[Structure, ...]


def verdict_of_trace(trace: Trace, *, gpu_hour_price: float | None = None) -> Verdict:
    """The verdict about the operations alone.

    A structure makes no run degraded, but for a uniform slowdown, which is a change.

    Args:
        trace: The operations.
        gpu_hour_price: Money per GPU-hour, for `Verdict.lost_money`.
    """
    trace = _from_zero(trace)
    found = cells(trace)
    if found is None:
        return _unknown(trace, "no computation of this trace takes time")
    if (timed := float(np.isfinite(found.ratio).mean())) < COVERAGE_AT_LEAST:
        return _unknown(trace, f"only {timed:.0%} of the computations have a duration")
    if trace.layout.workers < 2:
        return _unknown(trace, "the trace has one worker; a comparison needs two")
    if len(trace.steps) < FEWEST_STEPS:
        count = "one step tells" if len(trace.steps) == 1 else f"{len(trace.steps)} steps tell"
        return _unknown(trace, f"{count} nothing about noise; it takes {FEWEST_STEPS}")
    judgement = judge(found)
    whatif = analyze(trace)
    if isinstance(whatif, Unexplained):
        facts = Facts(trace, None, trace.duration, found, judgement.flags())
        return replace(
            _unknown(trace, whatif.why),
            structure=_structure(structures(facts)),
            rejected=_not_charged(trace, judgement),
            what_if=document(whatif),
        )
    own = whatif.work.own
    case = _Case(
        trace=trace,
        cells=found,
        judgement=judgement,
        late=lateness(trace),
        whatif=whatif,
        charge=cost_of_suspects(trace, own, whatif.trust.simulated, judgement.suspects),
        structures=structures(
            Facts(
                trace,
                build(trace),
                mended_own_times(trace, own, judgement.suspects),
                found,
                judgement.flags(),
            )
        ),
    )
    return _verdict(case, gpu_hour_price)


def _from_zero(trace: Trace) -> Trace:
    """Each step begins with its first operation; foreign clocks may count from elsewhere."""
    begin = trace.start.min(axis=(0, 1))
    if trace.observed is not None or not begin.any():
        return trace
    return replace(trace, start=trace.start - begin)


def _verdict(case: _Case, gpu_hour_price: float | None) -> Verdict:
    trace, cost = case.trace, case.charge
    culprits = tuple(_culprit(case, number) for number in range(len(case.judgement.suspects)))
    dark = None if culprits else _dark(case)
    shown = () if dark is not None else case.structures
    uniform = next((one for one in shown if one.kind == "uniform"), None)
    slowdown, interval = cost.slowdown, cost.interval
    if uniform is not None and not culprits:
        slowdown, interval = 1 / (1 - (uniform.share or 0.0)), None
    alone = trace.layout.dp == 1 and not culprits and uniform is None
    unknown = dark if dark is not None else ONE_REPLICA if alone else None
    lost = cost.lost_seconds * trace.layout.world / HOUR
    missing = [*trace.missing, NO_TELEMETRY]
    missing += [] if case.late is None else case.late.missing
    missing += {1: [ONE_REPLICA], 2: [TWO_REPLICAS]}.get(trace.layout.dp, [])
    verdict = Verdict(
        run=trace.name,
        status="degraded" if culprits else "unknown" if unknown else _well(uniform),
        sentence="",
        slowdown=slowdown,
        slowdown_interval=interval,
        lost_gpu_hours=lost,
        coverage=trace.coverage,
        culprits=culprits,
        structure=_structure(shown),
        what_if=_what_if(case),
        rejected=let_go(trace, case.cells, case.judgement, case.late, case.structures),
        missing=tuple(missing),
        lost_money=None if gpu_hour_price is None else lost * gpu_hour_price,
    )
    if unknown:
        words = _unknown_words(trace, unknown)
    else:
        words = sentence(verdict, trace) if culprits else healthy_sentence(verdict, trace)
    return replace(verdict, sentence=words)


def _well(uniform: Structure | None) -> str:
    return "healthy" if uniform is None else "degraded"


def _dark(case: _Case) -> str | None:
    """Why no worker can be said to be well; None = all can."""
    if case.trace.coverage < KNOWN_AT_LEAST:
        return f"only {case.trace.coverage:.0%} of the traced steps are whole"
    timed = np.isfinite(case.cells.ratio).mean(axis=(0, 1, -1))
    shares = timed / np.maximum(timed.max(axis=1, keepdims=True), NOTHING)
    stage, dp = np.unravel_index(int(np.argmin(shares)), shares.shape)
    if shares[stage, dp] >= KNOWN_AT_LEAST:
        return None
    rank = case.trace.worker(int(dp), int(stage))
    return f"only {shares[stage, dp]:.0%} of the computations of rank {rank} have a duration"


def _culprit(case: _Case, number: int) -> Culprit:
    trace, one = case.trace, case.judgement.suspects[number]
    agrees = case.late is not None and case.late.last(during=one.by_step > 0) == one.dp
    # Of a trace nobody knows the cause for certain, so that what is doubtful is the place.
    place = min(one.place_confidence, CERTAIN if agrees else UNCONFIRMED)
    page = case.charge.effects[number] >= WAKES
    return Culprit(
        scope="rank",
        rank=trace.worker(one.dp, one.stage),
        node=None,
        gpu=None,
        uuid=None,
        dp=one.dp,
        pp=one.stage,
        tp=0 if trace.layout.tp == 1 else None,
        link=None,
        from_step=int(trace.steps[one.first]),
        to_step=None if one.last is None else int(trace.steps[one.last]),
        since=None,
        slowdown=float(np.exp(one.excess)),
        slowdown_interval=interval_95(one.excess, one.error)[::2],
        cause="unknown",
        confidence=place,
        tier="page" if page else "record",
        evidence=evidence(
            trace,
            one,
            case.late,
            case.charge.gains[number],
            case.charge.intervals[number],
            cancelled=case.judgement.cancelled,
        ),
        # Operations tell of no cause: the one confidence is in the place.
        place_confidence=place,
    )


def _what_if(case: _Case) -> dict[str, Any]:
    """As simulated; fixes are of culprits only: what noise gives is no advice."""
    cost = case.charge
    fixes = [
        {
            "remove": f"rank {case.trace.worker(one.dp, one.stage)}",
            "gain": gain,
            "interval": None if interval is None else list(interval),
            "by": "simulation",
            "over": "all steps seen",
        }
        for one, gain, interval in zip(
            case.judgement.suspects, cost.gains, cost.intervals, strict=True
        )
    ]
    return {**document(case.whatif), "fixes": fixes}


def _structure(found: tuple[Structure, ...]) -> tuple[Mapping[str, object], ...]:
    return tuple({"kind": one.kind, "share": one.share, "text": one.text} for one in found)


def _not_charged(trace: Trace, judgement: Judgement) -> tuple[Rejected, ...]:
    return tuple(
        Rejected(
            trace.worker(one.dp, one.stage),
            f"its own time is {np.exp(one.excess):.2f}x what it should be, but the simulation does"
            " not explain the steps, so that nobody knows what it costs",
        )
        for one in judgement.suspects[:NAMED]
    )


def _unknown(trace: Trace, why: str) -> Verdict:
    return Verdict(
        run=trace.name,
        status="unknown",
        sentence=_unknown_words(trace, why),
        slowdown=None,
        slowdown_interval=None,
        lost_gpu_hours=None,
        coverage=trace.coverage,
        what_if={"method": "none", "why": why},
        missing=(*trace.missing, NO_TELEMETRY),
    )


def _unknown_words(trace: Trace, why: str) -> str:
    return (
        f"Unknown: {why}. No rank is named. Seen: {len(trace.steps)} steps of"
        f" {trace.layout.workers} workers, {trace.coverage:.0%} of the traced steps."
    )


EACH = 4
"""Of one reason, chosen; all workers of a heavy stage look alike."""
STAGE = "stage-imbalance"


def let_go(
    trace: Trace, found: Cells, judgement: Judgement, late: Lateness | None,
    structures: tuple[Structure, ...],
) -> tuple[Rejected, ...]:  # fmt: skip
    """A rank once, EACH of a reason: victims, heavy stages, long replicas, near the limit."""
    named = {trace.worker(one.dp, one.stage) for one in judgement.suspects}
    result: dict[int, Rejected] = {}
    reasons = (
        _victims(trace, judgement, late),
        _heavy(trace, found, structures),
        _long(trace, judgement),
        _near(trace, judgement),
    )
    for reason in reasons:
        fresh = (one for one in reason if one.rank not in named and one.rank not in result)
        for _, one in zip(range(EACH), fresh, strict=False):
            result[one.rank] = one
    return tuple(result.values())


def _victims(trace: Trace, judgement: Judgement, late: Lateness | None) -> Iterator[Rejected]:
    """The other stages of a late replica come late because they wait for the slow one."""
    for one in judgement.suspects:
        if late is None or late.last(during=one.by_step > 0) != one.dp:
            continue
        for stage in range(trace.layout.pp):
            if stage != one.stage:
                level = float(np.exp(judgement.level[stage, one.dp]))
                yield Rejected(
                    trace.worker(one.dp, stage),
                    f"comes late with its replica because it waits for rank"
                    f" {trace.worker(one.dp, one.stage)}: a victim{_beside(level)}",
                )


def _beside(level: float) -> str:
    return f"; its own time is {level:.2f}x its peers'" if np.isfinite(level) else ""


def _heavy(trace: Trace, found: Cells, structures: tuple[Structure, ...]) -> Iterator[Rejected]:
    """The workers of the heaviest stage, the longest first."""
    if not any(one.kind == STAGE for one in structures):
        return
    usual = np.median(found.usual, axis=1)
    stage = int(np.argmax(usual))
    others = np.median(np.delete(usual, stage))
    for dp in np.argsort(-found.usual[stage]):
        more = found.usual[stage, dp] / others - 1
        yield Rejected(
            trace.worker(int(dp), stage),
            f"computes {more:.0%} longer than other stages, but stage {stage} is heavier in every"
            " replica",
        )


def _long(trace: Trace, judgement: Judgement) -> Iterator[Rejected]:
    """Replicas that take longer on all stages."""
    for dp in np.argsort(-judgement.replica):
        more = float(np.exp(judgement.replica[dp])) - 1
        if more < LONGER:
            return
        for stage in range(trace.layout.pp):
            yield Rejected(
                trace.worker(int(dp), stage),
                f"computes {more:.0%} longer, but so does every stage of its replica: longer"
                " sequences, or all of its workers; operations alone cannot tell",
            )


def _near(trace: Trace, judgement: Judgement) -> Iterator[Rejected]:
    """Workers above their peers, within what chance or the spread of parts may do."""
    level = np.where(np.isfinite(judgement.level), judgement.level, -np.inf)
    for row in np.argsort(-level, axis=None):
        stage, dp = divmod(int(row), trace.layout.dp)
        if level[stage, dp] < OPERATIONS.floor:
            return
        ratio = np.exp(level[stage, dp])
        if trace.layout.dp <= 2:
            if level[stage, dp] < judgement.limit:
                continue
            why = f"differs from its only peer by {ratio - 1:.1%}, and nobody knows which is normal"
        else:
            limit = np.exp(judgement.limit)
            why = (
                f"its own time is {ratio:.3f}x its peers', within what healthy workers differ by"
                f" (up to {limit:.3f}x)"
            )
        yield Rejected(trace.worker(dp, stage), why)
