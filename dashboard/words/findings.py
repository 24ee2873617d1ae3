"""Findings and events as tables, with links to the place and the time of each."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pandas as pd

from lockstep.collector.contract.words import Cause
from lockstep.dashboard.address import Place, link
from lockstep.dashboard.palette import severity_word
from lockstep.dashboard.shapes import Event, FindingRow, RunRow, Span
from lockstep.dashboard.words.said import BADNESS

FINDING_LINKS = ("why", "node page", "run page")
SURE = ("sure of place", "sure of cause")
FINDINGS = ("node", "GPU", "rank", "cause", "slowdown", "since (UTC)", "severity", "state", *SURE,
            "run", "what", *FINDING_LINKS)  # fmt: skip
"""Who and why first: that is what is read at night; the links of a row are at its end."""
EVENTS = ("time (UTC)", "severity", "what", "where", "kind")
BEFORE_SECONDS, AFTER_SECONDS = 600.0, 1800.0
"""Of a finding's onset that a link shows, as far as the run was there."""


def worst_first(findings: Sequence[FindingRow]) -> list[FindingRow]:
    """Open ones first, then by severity, slowdown and how sure the place is, then the newest."""
    return sorted(
        findings,
        key=lambda one: (
            not one.open, -BADNESS.index(one.severity), -_cost(one),
            -(one.place_confidence or one.confidence or 0.0), -one.since,
        ),
    )  # fmt: skip


def findings(found: Sequence[FindingRow], runs: Mapping[str, RunRow]) -> pd.DataFrame:
    """One row a finding, in the order given.

    Args:
        found: What to show.
        runs: By id; a link's range stays within its run.

    Returns:
        Columns `FINDINGS`; those of `FINDING_LINKS` hold addresses, empty where they lead nowhere.
    """
    rows = []
    for one in found:
        row = runs.get(one.run)
        place = around(one, row.span if row else None)
        node = link("node", place, rank=None) if one.node else ""
        rows.append((
            one.node or one.link, one.gpu, one.rank, one.cause, one.slowdown, _moment(one.since),
            severity_word(one.severity), "open" if one.open else "ended",
            *(None if sure is None else round(sure, 2)
              for sure in (one.place_confidence, one.confidence)),
            one.run, one.sentence,
            link("straggler", place, rank=None) if one.run else "", node,
            link("run", place, rank=None) if one.run else "",
        ))  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(FINDINGS))
    return frame.astype(
        {"GPU": "Int64", "rank": "Int64"} | dict.fromkeys(("slowdown", *SURE), "float64")
    )


def around(one: FindingRow, span: Span | None) -> Place:
    """Where a finding is, with a range around its onset.

    Args:
        one: The finding.
        span: Of its run; None = not known.
    """
    start, end = one.since - BEFORE_SECONDS, one.since + AFTER_SECONDS
    if span is not None and span.start <= one.since <= span.end:
        start, end = max(start, span.start), min(end, span.end)
    return Place(
        run=one.run, node=one.node, gpu=one.gpu, rank=one.rank, finding=one.finding,
        since=str(int(max(start, 0.0) * 1000)), until=str(int(end * 1000) + 1),
    )  # fmt: skip


def events(found: Sequence[Event]) -> pd.DataFrame:
    """One row an event, in the order given; columns `EVENTS`."""
    rows = [
        (_moment(one.at), severity_word(one.severity), one.text, _where(one), one.kind)
        for one in found
    ]
    return pd.DataFrame(rows, columns=list(EVENTS))


def _cost(one: FindingRow) -> float:
    """Slowdown; what stops a run costs more than what slows it."""
    return math.inf if one.cause in (Cause.FREEZE, Cause.CRASH) else one.slowdown or 0.0


def _where(one: Event) -> str:
    gpu = "" if one.gpu is None else f"GPU {one.gpu}"
    rank = "" if one.rank is None else f"rank {one.rank}"
    return ", ".join(part for part in (one.node, gpu, rank) if part) or one.run


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
