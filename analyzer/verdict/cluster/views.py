"""A diagnosed run -> what the others see of it."""

from collections.abc import Iterator
from datetime import datetime

import numpy as np

from lockstep.analyzer.verdict.cluster.shape import RunView, Span
from lockstep.analyzer.verdict.pipeline import Diagnosis

SLOW_KINDS = frozenset({"slow", "hang", "link", "network", "change", "structure"})
"""Findings that say that the run's steps took longer, whoever's fault it is."""


def run_view(diagnosis: Diagnosis) -> RunView:
    """When a run was slow, and where it ran."""
    run, verdict = diagnosis.run, diagnosis.verdict
    lasted = _lasted(diagnosis)
    slow = () if verdict.status == "healthy" else tuple(_slow(diagnosis, lasted))
    return RunView(
        run=run.name,
        nodes=frozenset(info.node for info in run.ranks),
        lasted=lasted,
        slow=slow,
        known=verdict.status == "healthy" or bool(slow),
        culprits=verdict.culprits,
        emulated=run.meta.get("emulated_nodes") is True,
    )


def _slow(diagnosis: Diagnosis, lasted: Span) -> Iterator[Span]:
    grid = diagnosis.grid
    found = [finding for finding in diagnosis.findings if finding.kind in SLOW_KINDS]
    for finding in found:
        if finding.kind == "hang":
            begin = float(grid.end.max()) if len(grid.end) else lasted.begin
            yield Span(begin, lasted.end)
        elif len(grid.start):
            stop = len(grid.end) if finding.last is None else finding.last
            begin, end = float(grid.start[finding.first]), float(grid.end[stop - 1])
            if begin < end:
                yield Span(begin, end)
    if not found:
        # A run that told no step times: its hardware says since when.
        for culprit in diagnosis.verdict.culprits:
            if culprit.since is not None:
                yield Span(datetime.fromisoformat(culprit.since).timestamp(), lasted.end)


def _lasted(diagnosis: Diagnosis) -> Span:
    """From the first to the last thing that was heard of the run."""
    grid, samples = diagnosis.grid, diagnosis.run.samples
    told = samples["time"].to_numpy(dtype=float)
    times = np.concatenate([grid.start, grid.end, told])
    times = times[np.isfinite(times)]
    return Span(float(times.min()), float(times.max())) if times.size else Span(0.0, 0.0)
