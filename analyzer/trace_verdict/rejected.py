"""The workers of an op trace that look slow and are not to blame, each with the reason."""

from collections.abc import Iterator

import numpy as np

from analyzer.operations import Trace
from analyzer.run import Rejected
from analyzer.structure.facts import Structure
from analyzer.trace_outliers import Cells, Judgement, Lateness
from analyzer.trace_outliers.limits import RECORD

AT_MOST = 12
EACH = 4
"""Of one reason; all workers of a heavy stage look alike."""
REPLICA_LEAST = 0.03
STAGE = "stage-imbalance"


def let_go(
    trace: Trace, found: Cells, judgement: Judgement, late: Lateness | None,
    structures: tuple[Structure, ...],
) -> tuple[Rejected, ...]:  # fmt: skip
    """At most AT_MOST, a rank once: victims, heavy stages, long replicas, those near the limit."""
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
    return tuple(result.values())[:AT_MOST]


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
        if more < REPLICA_LEAST:
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
        if level[stage, dp] < RECORD:
            return
        ratio = np.exp(level[stage, dp])
        if trace.layout.dp <= 2:
            if level[stage, dp] < judgement.limit[stage, dp]:
                continue
            why = f"differs from its only peer by {ratio - 1:.1%}, and nobody knows which is normal"
        else:
            limit = np.exp(judgement.limit[stage, dp])
            why = (
                f"its own time is {ratio:.3f}x its peers', within what healthy workers differ by"
                f" (up to {limit:.3f}x)"
            )
        yield Rejected(trace.worker(dp, stage), why)
