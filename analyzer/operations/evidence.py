"""What operations show of each worker, in words: for and against who is slow, and who is let go."""

from collections.abc import Iterator

import numpy as np

from lockstep.analyzer.operations.lateness import Lateness
from lockstep.analyzer.operations.outliers import Cells, Judgement, Suspect
from lockstep.analyzer.operations.structure import LONGER, Structure
from lockstep.analyzer.shapes.operations import Trace
from lockstep.analyzer.shapes.run import Basis, Fact, Rejected
from lockstep.analyzer.shapes.wording import milliseconds
from lockstep.analyzer.stats import temporal_shape
from lockstep.analyzer.stats.robust_stats import interval_95

OWN_QUERY = "duration of forward-compute and backward-compute by dp_rank, stage, mb_id"
LATE_QUERY = "start_ts of grads-reduce-scatter (or optimizer-clip-main-grad) by dp_rank"
FIX_QUERY = "simulated step time with its computations at the pace of its peers"
EACH = 4
"""Of one reason, chosen; all workers of a heavy stage look alike."""
STAGE = "stage-imbalance"


def evidence(
    trace: Trace, suspect: Suspect, late: Lateness | None, *, cancelled: bool
) -> tuple[Fact, ...]:
    """What speaks for a suspect, and against it."""
    low, ratio, high = interval_95(suspect.excess, suspect.error)
    told, least, most = _times(ratio, low, high)
    compared = (
        "the same stage of the other replicas"
        if suspect.by_peers
        else "its own past, because it has too few peers"
    )
    same = ", the length of micro-batches taken out by the other stages" if cancelled else ""
    facts = [
        Fact(
            True,
            f"it computes {told}x as long ({least} to {most})"
            f" as {compared}{same}, {_when(trace, suspect)}",
            OWN_QUERY,
        )
    ]
    if late is not None:
        facts.append(_waiting(suspect, late))
    return tuple(facts)


def given_back(gain: float, interval: tuple[float, float] | None) -> Fact:
    """What the simulation says that mending a slow worker gives back, as a share of the step."""
    between = "" if interval is None else f" ({interval[0]:.1%} to {interval[1]:.1%})"
    words = f"with it at the pace of its peers the steps would be {gain:.1%} shorter{between}"
    return Fact(True, words, FIX_QUERY)


def _when(trace: Trace, suspect: Suspect) -> str:
    if suspect.first == 0 and suspect.last is None:
        span = f"in all {len(trace.steps)} steps seen"
    else:
        end = "" if suspect.last is None else f" to {trace.steps[suspect.last]}"
        span = f"from step {trace.steps[suspect.first]}{end}"
    often = float((suspect.by_step[suspect.first : suspect.last] > 0).mean())
    return span + temporal_shape.words(suspect.shape, often)


def _waiting(suspect: Suspect, late: Lateness) -> Fact:
    slow = suspect.by_step > 0
    last = late.last(during=slow)
    if last is None:
        return Fact(False, "no replica keeps the others waiting: its excess hides in slack",
                    LATE_QUERY, Basis.LATENESS)  # fmt: skip
    seconds = float(np.median(late.late[last, slow]))
    if last == suspect.dp:
        text = f"the other replicas wait for replica {last}, {milliseconds(seconds)} a step"
        return Fact(True, text, LATE_QUERY, Basis.LATENESS)
    text = f"the replica that the others wait for is {last}, {milliseconds(seconds)} a step"
    return Fact(False, text, LATE_QUERY, Basis.LATENESS)


def _times(*ratios: float) -> tuple[str, ...]:
    """Digits enough to tell 1 % from 2 %; all as the first."""
    digits = 3 if ratios[0] < 1.2 else 2
    return tuple(f"{ratio:.{digits}f}" for ratio in ratios)


def let_go(
    trace: Trace, cells: Cells, judgement: Judgement, late: Lateness | None,
    structures: tuple[Structure, ...],
) -> tuple[Rejected, ...]:  # fmt: skip
    """A rank once, EACH of a reason."""
    named = {trace.worker(suspect.dp, suspect.stage) for suspect in judgement.suspects}
    result: dict[int, Rejected] = {}
    reasons = (
        _victims(trace, judgement, late),
        _heavy(trace, cells, structures),
        _long(trace, judgement),
    )
    for reason in reasons:
        fresh = (
            rejection
            for rejection in reason
            if rejection.rank not in named and rejection.rank not in result
        )
        for _, rejection in zip(range(EACH), fresh, strict=False):
            result[rejection.rank] = rejection
    return tuple(result.values())


def _victims(trace: Trace, judgement: Judgement, late: Lateness | None) -> Iterator[Rejected]:
    """The other stages of a late replica come late because they wait for the slow one."""
    for suspect in judgement.suspects:
        if late is None or late.last(during=suspect.by_step > 0) != suspect.dp:
            continue
        for stage in range(trace.layout.pp):
            if stage != suspect.stage:
                level = float(np.exp(judgement.level[stage, suspect.dp]))
                yield Rejected(
                    trace.worker(suspect.dp, stage),
                    f"comes late with its replica because it waits for rank"
                    f" {trace.worker(suspect.dp, suspect.stage)}: a victim{_beside(level)}",
                )


def _beside(level: float) -> str:
    return f"; its own time is {level:.2f}x its peers'" if np.isfinite(level) else ""


def _heavy(trace: Trace, cells: Cells, structures: tuple[Structure, ...]) -> Iterator[Rejected]:
    """The workers of the heaviest stage, the longest first."""
    if not any(structure.kind == STAGE for structure in structures):
        return
    usual = np.median(cells.usual, axis=1)
    stage = int(np.argmax(usual))
    others = np.median(np.delete(usual, stage))
    for dp in np.argsort(-cells.usual[stage]):
        more = cells.usual[stage, dp] / others - 1
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
                " sequences, or all of its workers; operations alone do not show which",
            )
