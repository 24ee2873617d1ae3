"""Which operations go into the timeline beside a report: few enough to open at once."""

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.run import Run
    from lockstep.analyzer.verdict.pipeline import Diagnosis

MOST_RANKS = 64
MOST_OPERATIONS = 40_000
"""Actual ones; with the ideal ones beside them about 10 MB of JSON, 0.6 MB compressed."""


def excerpt(diagnosis: "Diagnosis") -> "tuple[Run, range, str] | None":
    """The run with its operations around the onset, the steps, and both in words.

    Replicas are taken whole, the culprits' first, because the ideal needs whole pipelines. None
    without operations.
    """
    import numpy as np

    from lockstep.analyzer.report.perfetto import steps_around

    run = diagnosis.run
    if run.ops is None or run.ops.empty:
        return None
    ranks = _ranks(diagnosis)
    ops = run.ops[run.ops["rank"].isin(ranks)]
    if ops.empty:
        return None
    numbers = ops["step"].to_numpy(np.int64)
    onsets = [one.from_step for one in diagnosis.verdict.culprits if one.from_step is not None]
    count, onset = 10, onsets[0] if onsets else None
    while True:
        steps = steps_around(numbers, onset, before=count // 2, count=count)
        inside = (numbers >= steps.start) & (numbers < steps.stop)
        if inside.sum() <= MOST_OPERATIONS or count == 1:
            break
        count = count // 2
    told = len(set(ops["rank"].unique().tolist()))
    words = f"steps {steps.start} to {steps.stop - 1} of {told} ranks"
    return replace(run, ops=ops[inside]), steps, words


def _ranks(diagnosis: "Diagnosis") -> list[int]:
    infos = diagnosis.run.ranks
    if len(infos) <= MOST_RANKS:
        return [info.rank for info in infos]
    named = {(one.node, one.rank) for one in diagnosis.verdict.culprits}
    guilty = [
        info.dp for info in infos
        if (info.node, info.rank) in named or (info.node, None) in named
    ]  # fmt: skip
    chosen: list[int] = []
    for replica in dict.fromkeys([*guilty, *(info.dp for info in infos)]):
        mine = [info.rank for info in infos if info.dp == replica]
        if chosen and len(chosen) + len(mine) > MOST_RANKS:
            break
        chosen += mine
    return chosen
