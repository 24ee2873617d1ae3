"""What happened when, in UTC, steps and seconds since the start."""

from datetime import datetime

import numpy as np

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.watched import FindingTimes
from lockstep.analyzer.shapes.run import Culprit, Grid, Verdict


def timeline(grid: Grid, verdict: Verdict, seen: FindingTimes | None = None) -> Block:
    """The section with one table of events, in order of time.

    Args:
        grid: The run's windows.
        verdict: Who was off from when to when.
        seen: When a watcher saw it; None = nobody watched.
    """
    begin, end = bounds(grid)
    if begin is None or end is None:
        return blocks.section("timeline", "Timeline", [blocks.text("No window answered.")])
    events: list[tuple[float, int | None, str]] = []
    if grid.from_step.size:
        events.append((begin, int(grid.from_step[0]), "first step"))
    for culprit in verdict.culprits:
        who = culprit.who if culprit.rank is None else f"{culprit.who} ({culprit.node})"
        began = since(grid, culprit)
        if began is not None:
            events.append((began, culprit.from_step, f"{who} is off: {culprit.cause} (onset)"))
        if culprit.to_step is not None:
            until = _start_of(grid, culprit.to_step)
            if until is not None:
                events.append((until, culprit.to_step, f"{who} is well again"))
    if verdict.hang is not None:
        ranks = ", ".join(str(rank) for rank in verdict.hang.get("missing_ranks", ()))
        op, sequence = verdict.hang.get("op"), verdict.hang.get("sequence")
        words = f"the run stands in {op} {sequence}; missing: rank {ranks}"
        events.append((end, int(grid.to_step[-1]), words))
    else:
        events.append((end, int(grid.to_step[-1]), "last step ends"))
    events += _live(seen) if seen is not None else []
    events.sort(key=lambda event: event[0])
    rows = [[time, time - begin, step, words] for time, step, words in events]
    columns = {"time": "time", "since start": "since", "step": "count", "event": ""}
    return blocks.section(
        "timeline",
        "Timeline",
        [
            blocks.table(
                "Events",
                columns,
                rows,
                source="steps.parquet: start" + ("; finding.json" if seen else ""),
            )
        ],
    )


def _live(seen: FindingTimes) -> list[tuple[float, int | None, str]]:
    """What happened outside the run: who noticed, and who was told."""
    moments = [
        (seen.first_seen, "lockstep watch sees the first sign"),
        (seen.opened, "the finding is opened"),
        (seen.closed, "the finding is closed"),
        *((alert.fired, f"{alert.name} fires") for alert in seen.alerts),
        *((alert.received, f"{alert.name} is received") for alert in seen.alerts),
    ]
    return [(time, None, words) for time, words in moments if time is not None]


def bounds(grid: Grid) -> tuple[float | None, float | None]:
    """Unix seconds of the first window's start and the last one's end; None without windows."""
    starts, ends = grid.start[np.isfinite(grid.start)], grid.end[np.isfinite(grid.end)]
    if not starts.size or not ends.size:
        return None, None
    return float(starts.min()), float(ends.max())


def since(grid: Grid, culprit: Culprit) -> float | None:
    """Unix seconds of a culprit's onset; None = not known."""
    if culprit.from_step is not None:
        start = _start_of(grid, culprit.from_step)
        if start is not None:
            return start
    return datetime.fromisoformat(culprit.since).timestamp() if culprit.since else None


def _start_of(grid: Grid, step: int) -> float | None:
    """When a step began, from the window it lies in; None = after the last window."""
    inside = np.flatnonzero((grid.from_step <= step) & (step < grid.to_step))
    if not inside.size or not np.isfinite(grid.start[inside[0]]):
        return None
    return float(grid.start[inside[0]])
