"""Where the time of runs went, as the recording rules told Prometheus (`lockstep rules`)."""

from collections.abc import Mapping

from lockstep.analyzer.ledger.buckets import BUCKETS, Bucket
from lockstep.analyzer.ledger.words import percent
from lockstep.analyzer.read.prometheus.kubernetes import read_teams, teams_query
from lockstep.analyzer.read.prometheus.promql import lasting, series
from lockstep.analyzer.rules.recording_rules.ledger import SERIES
from lockstep.dashboard.shapes import FindingRow, LedgerRow, Span
from lockstep.dashboard.sources.prometheus.asking import Asking

EVERY = 15.0
"""Seconds between two evaluations of the rules."""
NOT_IN_SERIES = (
    "Prometheus has ranks while they live, between their first and their last scrape: queueing, the"
    " wait for a node and steps that were replayed are missing; lockstep ledger DIR has them of"
    " archives"
)


def ledgers(
    asking: Asking, span: Span, run: str, findings: tuple[FindingRow, ...]
) -> tuple[LedgerRow, ...]:
    """One row a run of a span.

    Args:
        asking: The Prometheus.
        span: Of which the time is told.
        run: Empty = all.
        findings: Of the span; what a straggler cost is the culprit's where a run has one.
    """
    seconds = max(EVERY, span.end - span.start)
    selector = series(SERIES, **({"run": run} if run else {}))
    query = f"sum by (run, bucket) (sum_over_time({selector}[{lasting(seconds)}])) * {EVERY:g}"
    sums: dict[str, dict[str, float]] = {}
    for labels, value in asking.instant(query, span.end):
        sums.setdefault(labels.get("run", ""), {})[labels.get("bucket", "")] = value
    if not sums:
        return ()
    whose = read_teams(asking.instant(teams_query(seconds, run), span.end))
    return tuple(
        _row(name, whose.get(name, "unknown"), found, findings, query)
        for name, found in sorted(sums.items())
    )


def _row(
    run: str,
    team: str,
    values: Mapping[str, float],
    findings: tuple[FindingRow, ...],
    query: str,
) -> LedgerRow:
    whole = sum(values.values())
    named = dict.fromkeys(
        f"{finding.node or finding.link} ({finding.cause})"
        for finding in findings
        if finding.run == run and (finding.node or finding.link)
    )
    excess = values.get(Bucket.STRAGGLER, 0.0)
    who = next(iter(named)) if len(named) == 1 else "culprits together"
    buckets = {row.title: values[row.bucket] for row in BUCKETS
               if row.bucket in values and row.bucket is not Bucket.STRAGGLER}  # fmt: skip
    stragglers = {who: excess} if excess > 0 else {}
    return LedgerRow(
        run=run, team=team, sentence=_sentence(buckets, stragglers, whole), buckets=buckets,
        stragglers=stragglers, missing=(NOT_IN_SERIES,), provenance=(), attempts=None,
        known_from="recording rules", query=query,
    )  # fmt: skip


def _sentence(buckets: Mapping[str, float], stragglers: Mapping[str, float], whole: float) -> str:
    """As lockstep.analyzer.ledger.words.sentence."""
    if not whole > 0:
        return "Its time is unknown."
    productive = {row.title for row in BUCKETS if row.productive}
    useful = sum(value for title, value in buckets.items() if title in productive) / whole
    losses = {title: value for title, value in buckets.items() if title not in productive}
    losses |= stragglers
    who = max(losses, key=lambda name: losses[name], default="")
    if not who or not losses[who] > 0:
        return f"{percent(useful)} useful; nothing was lost."
    return f"{percent(useful)} useful; the largest loss is {who}, {percent(losses[who] / whole)}."
