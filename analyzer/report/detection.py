"""How it was found: the delay until somebody knew, which detectors spoke, and their thresholds."""

import math
from collections.abc import Sequence

from lockstep.analyzer.report import blocks, figures
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.shown import MOST_ROWS
from lockstep.analyzer.report.timeline import since
from lockstep.analyzer.report.watched import FindingTimes
from lockstep.analyzer.shapes.run import Finding, Grid, Verdict
from lockstep.analyzer.stats import changepoint, significance
from lockstep.analyzer.stragglers.registry import DETECTORS

NOT_WATCHED = (
    "No finding.json stands beside the archive: nobody watched this run live, so there is no"
    " detection delay to tell. The command lockstep watch measures it."
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
            blocks.text(f"The finding as it was told when it opened: {seen.sentence}")
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
    found: list[Block | None] = []
    for told in verdict.history:
        text = str(told["text"])
        rows = [
            ["for" if fact["for"] else "against", fact["text"], fact["query"]]
            for fact in told["evidence"]
        ]
        found.append(blocks.text(f"{text[0].upper()}{text[1:]}."))
        found += [blocks.text(f"{one[0].upper()}{one[1:]}.") for one in told.get("changed", ())]
        found.append(blocks.table(
            "What was known then", {"": "", "observation": "", "query": ""}, rows,
            collapsed=bool(told["agrees"]), source="finding.json",
        ))  # fmt: skip
    return found


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
