"""What the verdict of a run says in the first line of a page."""

import shlex
from collections.abc import Mapping
from typing import Any

from lockstep.dashboard.shapes import RunRow, Severity
from lockstep.dashboard.words.reading import mapping, number, records, text, whole
from lockstep.dashboard.words.said import Said

Verdict = Mapping[str, Any]
NAMED_AT_MOST = 4
"""Missing ranks in a sentence; the others are counted."""


def headline(verdict: Verdict | None, row: RunRow, *, live: bool = False) -> Said:
    """Who is late and why, as the verdict says it; or that nobody analyzed the run.

    Args:
        verdict: docs/reference/verdict.md; None = there is none.
        row: Of the run.
        live: Whether the run is watched rather than read from an archive.
    """
    if verdict is None:
        return _not_analyzed(row, live=live)
    words = text(verdict.get("sentence"))
    if not words:
        words = f"The verdict of run {row.run} says nothing in words; the parts of it stand below."
    return Said(words, severity(verdict))


def severity(verdict: Verdict) -> Severity:
    """How bad a verdict is: that of its worst culprit; unknown is not healthy."""
    culprits = records(verdict.get("culprits"))
    if mapping(verdict.get("hang")) or any(each.get("tier") == "page" for each in culprits):
        return Severity.CRITICAL
    status = verdict.get("status")
    if culprits or status == "degraded":
        return Severity.WARNING
    if status == "healthy":
        # Whom somebody was told of, and this archive does not show, is not all well.
        told = any(each.get("agrees") is False for each in records(verdict.get("history")))
        return Severity.WARNING if told else Severity.OK
    return Severity.UNKNOWN


def who(culprit: Verdict) -> str:
    """A culprit in a few words: `rank 2 (node-2, GPU 0)`, `node-1`, `the link node-0 – node-1`."""
    node, link = text(culprit.get("node")), text(culprit.get("link"))
    if culprit.get("scope") in ("link", "rack") and (link or node):
        name = link or f"of {node}"
        return name if culprit.get("scope") == "rack" else f"the link {name}"
    rank, gpu = whole(culprit.get("rank")), whole(culprit.get("gpu"))
    place = ", ".join(part for part in (node, "" if gpu is None else f"GPU {gpu}") if part)
    if rank is None:
        return place or "somebody without a name"
    return f"rank {rank} ({place})" if place else f"rank {rank}"


def hang(verdict: Verdict) -> str:
    """Which ranks are missing from which collective; empty where nothing hangs."""
    told = mapping(verdict.get("hang"))
    if not told:
        return ""
    missing = missing_ranks(verdict)
    names = ", ".join(map(str, missing[:NAMED_AT_MOST]))
    more = len(missing) - NAMED_AT_MOST
    names += f" and {more} more" if more > 0 else ""
    op, group = text(told.get("op")) or "a collective", text(told.get("group")) or "not told"
    sequence = whole(told.get("sequence"))
    which = "" if sequence is None else f" number {sequence}"
    if not missing:
        return f"The run hangs in {op}{which} of group {group}; who is missing is not known."
    are = "rank {} is" if len(missing) == 1 else "ranks {} are"
    return (
        f"The run hangs in {op}{which} of group {group}: {are.format(names)} missing, and everybody"
        " else in the group waits."
    )


def missing_ranks(verdict: Verdict) -> tuple[int, ...]:
    """The ranks that a hanging collective waits for."""
    told = mapping(verdict.get("hang")).get("missing_ranks")
    found = (whole(each) for each in told) if isinstance(told, list) else ()
    return tuple(each for each in found if each is not None)


def named(verdict: Verdict | None, ranks_of_node: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Every rank that a verdict accuses, those of accused nodes included; for marks in charts.

    Args:
        verdict: docs/reference/verdict.md, or None.
        ranks_of_node: Of the run.
    """
    found: set[int] = set()
    for culprit in records((verdict or {}).get("culprits")):
        rank = whole(culprit.get("rank"))
        if rank is not None:
            found.add(rank)
        elif culprit.get("scope") in ("node", "gpu"):
            found.update(ranks_of_node.get(text(culprit.get("node")), ()))
    return tuple(sorted(found | set(missing_ranks(verdict or {}))))


def confidence(verdict: Verdict) -> float | None:
    """In the cause: the lowest of its culprits', as the report says it; None without culprits."""
    return _lowest(verdict, "confidence")


def place_confidence(verdict: Verdict) -> float | None:
    """In the place: likewise; None where nobody told it."""
    return _lowest(verdict, "place_confidence")


def _lowest(verdict: Verdict, key: str) -> float | None:
    told = [number(each.get(key)) for each in records(verdict.get("culprits"))]
    return min((each for each in told if each is not None), default=None)


def _not_analyzed(row: RunRow, *, live: bool) -> Said:
    said = f"Nobody analyzed run {row.run}, so nobody can say who is late; what was measured stands"
    if live and not row.folder:
        return Said(
            f"{said} below. lockstep watch analyzes running runs.",
            Severity.UNKNOWN,
            "lockstep watch --prometheus URL",
        )
    folder = shlex.quote(row.folder or "DIR")
    return Said(f"{said} below. Analyze it:", Severity.UNKNOWN, f"lockstep analyze {folder}")
