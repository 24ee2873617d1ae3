"""A verdict in words: its sentence, who is named, its details and its range; read defensively."""

import math
import shlex
from collections.abc import Mapping
from typing import Any

import pandas as pd

from lockstep.dashboard.address import moment, utc
from lockstep.dashboard.shapes import RunRow, Severity, Span
from lockstep.dashboard.trouble import TroubleError
from lockstep.dashboard.words.said import Said

# Parts of a verdict, or nothing where they are not as they should: people edit files.


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def whole(value: Any) -> int | None:
    """A whole number from 0, as a rank or a step is; or None."""
    known = number(value)
    return None if known is None or known < 0 or known != int(known) else int(known)


def pair(value: Any) -> tuple[float, float] | None:
    """An interval, or None."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = number(value[0]), number(value[1])
    return None if low is None or high is None else (low, high)


def text(value: Any) -> str:
    """A string, or an empty one."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def records(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The mappings of a list."""
    return tuple(item for item in sequence(value) if isinstance(item, Mapping))


def texts(value: Any) -> tuple[str, ...]:
    """The strings of a list."""
    return tuple(item for item in sequence(value) if isinstance(item, str))


def sequence(value: Any) -> tuple[Any, ...]:
    """A list as a tuple, or an empty one."""
    return tuple(value) if isinstance(value, list | tuple) else ()


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
        words = f"The verdict of run {row.run} has no sentence; its parts are below."
    return Said(words, severity(verdict))


def severity(verdict: Verdict) -> Severity:
    """How bad a verdict is: that of its worst culprit; unknown is not healthy."""
    culprits = records(verdict.get("culprits"))
    if mapping(verdict.get("hang")) or any(culprit.get("tier") == "page" for culprit in culprits):
        return Severity.CRITICAL
    status = verdict.get("status")
    if culprits or status == "degraded":
        return Severity.WARNING
    if status == "healthy":
        # Whom somebody was told of, and this archive does not show, is not all well.
        named_before = any(
            entry.get("agrees") is False for entry in records(verdict.get("history"))
        )
        return Severity.WARNING if named_before else Severity.OK
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
    hanging = mapping(verdict.get("hang"))
    if not hanging:
        return ""
    missing = missing_ranks(verdict)
    names = ", ".join(map(str, missing[:NAMED_AT_MOST]))
    more = len(missing) - NAMED_AT_MOST
    names += f" and {more} more" if more > 0 else ""
    op, group = text(hanging.get("op")) or "a collective", text(hanging.get("group")) or "unknown"
    sequence = whole(hanging.get("sequence"))
    which = "" if sequence is None else f" number {sequence}"
    if not missing:
        return f"The run hangs in {op}{which} of group {group}; who is missing is unknown."
    are = "rank {} is" if len(missing) == 1 else "ranks {} are"
    return (
        f"The run hangs in {op}{which} of group {group}: {are.format(names)} missing, and everybody"
        " else in the group waits."
    )


def missing_ranks(verdict: Verdict) -> tuple[int, ...]:
    """The ranks that a hanging collective waits for."""
    ranks = mapping(verdict.get("hang")).get("missing_ranks")
    wholes = (whole(member) for member in ranks) if isinstance(ranks, list) else ()
    return tuple(each for each in wholes if each is not None)


def named(verdict: Verdict | None, ranks_of_node: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Every rank that a verdict accuses, those of accused nodes included; for marks in charts.

    Args:
        verdict: docs/reference/verdict.md, or None.
        ranks_of_node: Of the run.
    """
    ranks: set[int] = set()
    for culprit in records((verdict or {}).get("culprits")):
        rank = whole(culprit.get("rank"))
        if rank is not None:
            ranks.add(rank)
        elif culprit.get("scope") in ("node", "gpu"):
            ranks.update(ranks_of_node.get(text(culprit.get("node")), ()))
    return tuple(sorted(ranks | set(missing_ranks(verdict or {}))))


def confidence(verdict: Verdict) -> float | None:
    """In the cause: the lowest of its culprits', as the report says it; None without culprits."""
    return _lowest(verdict, "confidence")


def place_confidence(verdict: Verdict) -> float | None:
    """In the place: likewise; None where nobody told it."""
    return _lowest(verdict, "place_confidence")


def _lowest(verdict: Verdict, key: str) -> float | None:
    known = [number(culprit.get(key)) for culprit in records(verdict.get("culprits"))]
    return min((item for item in known if item is not None), default=None)


def _not_analyzed(row: RunRow, *, live: bool) -> Said:
    said = f"Run {row.run} was not analyzed, so who is late is unknown; what was measured stands"
    if live and not row.folder:
        return Said(
            f"{said} below. lockstep watch analyzes running runs.",
            Severity.UNKNOWN,
            "lockstep watch --prometheus URL",
        )
    folder = shlex.quote(row.folder or "DIR")
    return Said(f"{said} below. Analyze it:", Severity.UNKNOWN, f"lockstep analyze {folder}")


# What else a verdict says: who was let go, what is by design, what deviates, what is missing.

REJECTED = ("rank", "why it is not to blame")
STRUCTURE = ("kind", "share of the step", "what")
ANOMALIES = ("node", "GPU", "since", "distance", "costs time", "what")
MISSING = ("what was not there",)


def rejected(verdict: Mapping[str, Any]) -> pd.DataFrame:
    """Suspects that were ruled out; columns `REJECTED`."""
    rows = [
        (whole(entry.get("rank")), text(entry.get("why")))
        for entry in records(verdict.get("rejected"))
    ]
    return pd.DataFrame(rows, columns=list(REJECTED)).astype({"rank": "Int64"})


def structure(verdict: Mapping[str, Any]) -> pd.DataFrame:
    """What is slow by design and nobody's fault; columns `STRUCTURE`."""
    rows = [
        (text(entry.get("kind")), number(entry.get("share")), text(entry.get("text")))
        for entry in records(verdict.get("structure"))
    ]
    return pd.DataFrame(rows, columns=list(STRUCTURE)).astype({"share of the step": "float64"})


def anomalies(verdict: Mapping[str, Any]) -> pd.DataFrame:
    """Hardware that deviates from its peers, costly or not; columns `ANOMALIES`."""
    rows = [
        (text(entry.get("node")), whole(entry.get("gpu")), text(entry.get("since")),
         number(entry.get("deviation")), "yes" if entry.get("costs_time") is True else "not yet",
         text(entry.get("text")))
        for entry in records(verdict.get("anomalies"))
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(ANOMALIES))
    return frame.astype({"GPU": "Int64", "distance": "float64"})


def before(verdict: Mapping[str, Any]) -> tuple[str, ...]:
    """How often its culprits were culprits before, a sentence each."""
    sentences = (text(entry.get("text")) for entry in records(verdict.get("recurrence")))
    return tuple(f"{one}." for one in sentences if one)


def missing(verdict: Mapping[str, Any]) -> pd.DataFrame:
    """What was looked for and not found; columns `MISSING`."""
    return pd.DataFrame({MISSING[0]: list(texts(verdict.get("missing")))}, dtype="str")


def how_sure(verdict: Mapping[str, Any]) -> str:
    """Coverage, provenance and what goes on costing, in a sentence."""
    coverage = number(verdict.get("coverage"))
    words = (
        "How much of the run answered is unknown."
        if coverage is None
        else f"{coverage:.0%} of the expected windows of all ranks answered."
    )
    made = ", ".join(texts(verdict.get("provenance")))
    words += f" Made up in this run: {made}." if made else ""
    daily = mapping(verdict.get("lost_per_day"))
    hours = number(daily.get("gpu_hours"))
    if hours is not None and daily.get("goes_on") is True:
        words += f" If it goes on, {hours:.3g} GPU-hours a day are lost."
    return words


# Which range a number is of: the verdict counts from the onset, charts take what is shown.

NEAR = 0.02
"""Of the range: an onset so near to its left edge is the edge."""


def onset(verdict: Mapping[str, Any] | None, span: Span) -> float | None:
    """Unix seconds from which the first culprit is slow, where a range begins before it."""
    culprits = records((verdict or {}).get("culprits"))
    if not culprits or not text(culprits[0].get("since")):
        return None
    try:
        since = moment(text(culprits[0].get("since")), span.end)
    except TroubleError:
        return None
    return since if span.start + NEAR * span.seconds < since < span.end else None


def measured(verdict: Mapping[str, Any] | None, span: Span) -> str:
    """What the map, the charts and the table of ranks are taken over, and what the verdict is."""
    words = (
        f"Measured from {utc(span.start)} to {utc(span.end)}: the table has medians over all of"
        " it, the map and the boxes values by window."
    )
    since = onset(verdict, span)
    if since is None:
        return words
    first = records((verdict or {}).get("culprits"))[0]
    slower, step = number(first.get("slowdown")), whole(first.get("from_step"))
    times = "" if slower is None else f": {slower:.2f}×"
    at = utc(since) if step is None else f"step {step} ({utc(since)})"
    return (
        f"{words} The verdict counts {who(first)} from {at} on{times}; medians that"
        " include the time before are lower."
    )
