"""When what happened and when somebody knew: the timeline, the delays, detectors and thresholds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from lockstep.analyzer.report import blocks, figures
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.series import MOST_ROWS
from lockstep.analyzer.shapes.run import Culprit, Finding, Grid, Verdict
from lockstep.analyzer.stats import changepoint, significance
from lockstep.analyzer.stragglers.registry import DETECTORS


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that matched the finding; unix seconds, None = not told."""

    name: str
    fired: float | None
    received: float | None


@dataclass(frozen=True, slots=True)
class FindingTimes:
    """What people were told, and the moments of a finding; unix seconds, None = not told."""

    onset: float | None
    first_seen: float | None
    opened: float | None
    closed: float | None
    alerts: tuple[Alert, ...]
    sentence: str = ""


def finding_times(finding: Mapping[str, Any]) -> FindingTimes:
    """The moments of finding.json; what has another type is not told."""
    alerts = finding.get("alerts")
    rows = alerts if isinstance(alerts, list) else []
    return FindingTimes(
        onset=moment(finding.get("onset")),
        first_seen=moment(finding.get("first_seen")),
        opened=moment(finding.get("opened")),
        closed=moment(finding.get("closed")),
        alerts=tuple(_alert(row) for row in rows if isinstance(row, Mapping)),
        sentence=str(finding.get("sentence") or ""),
    )


def moment(value: Any) -> float | None:
    """Unix seconds from a number or RFC 3339 text; None where it is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) and 0 < value < 32503680000 else None
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return time.timestamp() if 1970 < time.year < 3000 else None


def _alert(alert: Mapping[str, Any]) -> Alert:
    name = alert.get("name") or "an alert"
    return Alert(str(name), moment(alert.get("starts_at")), moment(alert.get("received")))


NOT_WATCHED = (
    "No finding.json stands beside the archive: this run was not watched live, so its detection"
    " delay is unknown. The command lockstep watch measures it."
)


def _percent(log_ratio: float) -> str:
    return f"at least {100 * math.expm1(log_ratio):.0f} %"


THRESHOLDS: tuple[tuple[str, str, str], ...] = (
    (
        "a rank is slow",
        f"{_percent(significance.FLOOR)} slower than its peers or its own past, beyond chance",
        "analyzer/stats/significance.py",
    ),
    (
        "it came and went",
        f"{_percent(significance.TRANSIENT_FLOOR)} slower for {significance.TRANSIENT_STEPS} steps",
        "analyzer/stats/significance.py",
    ),
    (
        "it always was slow",
        f"{_percent(significance.PARTS_AT_MOST)} slower: identical parts differ by less",
        "SC22, arXiv 2208.11035",
    ),
    ("long enough", f"at least {significance.STEPS_AT_LEAST} steps", "GREYHOUND, ATC'25"),
    (
        "compared in",
        (
            f"{changepoint.BLOCKS_AT_MOST} groups at most, "
            f"of {changepoint.BLOCK_STEPS_AT_LEAST} steps at least"
        ),
        "analyzer/stats/changepoint.py",
    ),
)
"""What is judged, the limit in force, and where it comes from."""


def detection(
    grid: Grid, verdict: Verdict, findings: Sequence[Finding], seen: FindingTimes | None
) -> Block:
    """The section on detection."""
    rows = [
        [each.detector, each.kind, each.rank, each.slowdown, each.score, each.text]
        for each in findings[:MOST_ROWS]
    ]
    more = len(findings) - len(rows)
    columns = {"detector": "", "kind": "", "rank": "", "slowdown": "ratio", "score": "score",
               "what": ""}  # fmt: skip
    return blocks.section(
        "detection",
        "Detection",
        [
            blocks.text(f"The finding as reported when it opened: {seen.sentence}")
            if seen is not None and seen.sentence
            else None,
            *_then(verdict),
            blocks.text(NOT_WATCHED) if seen is None else _delays(grid, verdict, seen),
            blocks.table("What the detectors found", columns, rows,
                         source="lockstep analyze DIR -o json; score in standard errors"),
            blocks.text(f"{more} more findings are not listed.") if more > 0 else None,
            blocks.text(_silent(findings)),
            blocks.table("Thresholds in force", {"what": "", "limit": "", "from": ""}, THRESHOLDS,
                         collapsed=True),
        ],
    )  # fmt: skip


def _then(verdict: Verdict) -> list[Block | None]:
    """What was told when the archive was written, and what was known by then."""
    blocks_then: list[Block | None] = []
    for earlier in verdict.history:
        text = str(earlier["text"])
        rows = [
            ["for" if fact["for"] else "against", fact["text"], fact["query"]]
            for fact in earlier["evidence"]
        ]
        blocks_then.append(blocks.text(f"{text[0].upper()}{text[1:]}."))
        blocks_then += [
            blocks.text(f"{change[0].upper()}{change[1:]}.")
            for change in earlier.get("changed", ())
        ]
        blocks_then.append(blocks.table(
            "What was known then", {"": "", "observation": "", "query": ""}, rows,
            collapsed=bool(earlier["agrees"]), source="finding.json",
        ))  # fmt: skip
    return blocks_then


def _delays(grid: Grid, verdict: Verdict, seen: FindingTimes) -> Block | None:
    """From the onset, as the data have it, to each moment after it."""
    onsets = [at for culprit in verdict.culprits if (at := since(grid, culprit)) is not None]
    onset = min(onsets) if onsets else seen.onset
    fired = [alert.fired for alert in seen.alerts if alert.fired is not None]
    received = [alert.received for alert in seen.alerts if alert.received is not None]
    moments = {
        "onset in the data": onset,
        "first sign seen": seen.first_seen,
        "finding opened": seen.opened,
        "alert fired": min(fired, default=None),
        "alert received": min(received, default=None),
    }
    rows = [
        [what, at, None if at is None or onset is None else at - onset]
        for what, at in moments.items()
    ]
    columns = {"moment": "", "time": "time", "after the onset": "seconds"}
    return blocks.table("Detection delay", columns, rows, source="finding.json; steps.parquet")


def _silent(findings: Sequence[Finding]) -> str:
    """The detectors that looked and found nothing: another answer would have been possible."""
    spoke = {finding.detector for finding in findings}
    names = [spec.name for spec in DETECTORS]
    silent = [name for name in names if name not in spoke]
    words = f"{figures.cell(len(names), 'count')} detectors looked"
    return f"{words}; silent: {', '.join(silent)}." if silent else f"{words}, and all spoke."


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
