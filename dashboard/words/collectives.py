"""Collectives in words: shares of waiting, arrivals, slow links, one rank's operations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lockstep.analyzer.causes.registry import CAUSES
from lockstep.analyzer.report.figures import cell
from lockstep.dashboard.shapes import Matrix, Severity, Span
from lockstep.dashboard.words.said import Said
from lockstep.dashboard.words.verdict import number, records, text, who

# How much of a step ranks are in collectives: who waits least, who most; no middle of the two.

ALIKE = 0.05
"""Share of the step within which ranks wait alike. Ours: less is noise between nodes."""
CLEFT = 0.5
"""Of the whole distance, so much lies between two groups of ranks that stand apart."""
NAMED_AT_MOST = 3


@dataclass(frozen=True, slots=True)
class Waits:
    """What ranks wait.

    Attributes:
        middle: Share of the step of one rank: half of the ranks wait no longer; NaN = not known.
        words: A sentence.
    """

    middle: float
    words: str


UNKNOWN = Waits(float("nan"), "How long ranks are in collectives is unknown.")


def waits(ranks: pd.DataFrame | None) -> Waits:
    """Shares of the step in collectives, lowest and highest with names.

    Args:
        ranks: As protocol.Source.ranks gives it; None = nobody told.
    """
    if ranks is None or ranks.empty or not np.isfinite(ranks["wait_share"]).any():
        return UNKNOWN
    known = ranks[np.isfinite(ranks["wait_share"])]
    known = known.sort_values("wait_share", kind="stable", ignore_index=True)
    unknown = len(ranks) - len(known)
    shares = known["wait_share"].to_numpy(np.float64)
    middle = float(shares[(len(shares) - 1) // 2])
    whole = shares[-1] - shares[0]
    if len(known) == 1:
        words = f"{_name(known.iloc[0])} is in collectives for {_between(shares)} of a step."
    elif whole <= ALIKE:
        every = f"The {len(known):,} ranks that report it" if unknown else "All ranks"
        words = f"{every} are in collectives for {_between(shares)} of a step."
    else:
        gaps = np.diff(shares)
        cut = int(gaps.argmax()) + 1
        if gaps.max() >= CLEFT * whole:
            words = _groups(known, shares, cut)
        else:
            words = (
                f"Ranks are in collectives for {_percent(shares[0])} ({_name(known.iloc[0])}) to"
                f" {_percent(shares[-1])} ({_name(known.iloc[-1])}) of a step."
            )
    more = "" if not unknown else f" It is unknown for {unknown:,} of {len(ranks):,} ranks."
    return Waits(middle, f"{words[:1].upper()}{words[1:]}{more}")


def _groups(frame: pd.DataFrame, shares: np.ndarray, cut: int) -> str:
    """Two groups that stand apart: the smaller one by its names."""
    low, high = frame.iloc[:cut], frame.iloc[cut:]
    few, others = (low, high) if len(low) <= len(high) else (high, low)
    mine, theirs = (shares[:cut], shares[cut:]) if few is low else (shares[cut:], shares[:cut])
    return (
        f"{_names(few, others)} {'is' if len(few) == 1 else 'are'} in collectives for"
        f" {_between(mine)} of a step, the other{'s' if len(others) > 1 else ''} for"
        f" {_between(theirs)}."
    )


def _names(some: pd.DataFrame, others: pd.DataFrame) -> str:
    nodes: Sequence[str] = list(dict.fromkeys(some["node"].astype(str)))
    apart = not set(nodes) & set(others["node"].astype(str))
    if len(some) > 1 and apart and len(nodes) <= NAMED_AT_MOST:
        return f"the ranks of {' and '.join(nodes)}"
    named = [_name(row) for _, row in some.head(NAMED_AT_MOST).iterrows()]
    left = len(some) - len(named)
    return f"{', '.join(named)}{f' and {left:,} more' if left else ''}"


def _name(row: "pd.Series[Any]") -> str:
    return f"rank {row['rank']} on {row['node']}" if row["node"] else f"rank {row['rank']}"


def _between(shares: np.ndarray) -> str:
    low, high = _percent(shares[0]), _percent(shares[-1])
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def _percent(share: float) -> str:
    return cell(float(share), "share")


STEPS = 4
"""Steps that a timeline shows: more of them cannot be told apart."""
WIDER = 15
"""How much further to look for collectives where a rank stood still."""
FALLBACK_SECONDS = 5.0
COLLECTIVES = ("op", "group", "count", "median bytes", "median ms", "p95 ms", "in sum s")


def window(span: Span, wall_seconds: float, around: float | None) -> Span:
    """A few steps within a range.

    Args:
        span: The range.
        wall_seconds: Of a step; NaN = not known.
        around: Moment that it begins one step before; None = the middle of the range.
    """
    step = wall_seconds if np.isfinite(wall_seconds) and wall_seconds > 0 else FALLBACK_SECONDS
    long = STEPS * step
    if span.seconds <= long:
        return span
    start = around - step if around is not None else span.start + (span.seconds - long) / 2
    start = min(max(start, span.start), span.end - long)
    return Span(start, start + long)


def widened(span: Span, moment: Span) -> Span:
    """A moment with WIDER times as much of its range before and after it."""
    more = WIDER * moment.seconds
    return Span(max(moment.start - more, span.start), min(moment.end + more, span.end))


def collectives(operations: pd.DataFrame) -> pd.DataFrame:
    """One row an operation and group: columns COLLECTIVES, the longest in sum first."""
    together = operations[operations["group"].fillna("").astype(str).ne("")]
    if together.empty:
        return pd.DataFrame(columns=list(COLLECTIVES))
    grouped = together.groupby(["op", "group"], observed=True)
    seconds = grouped["seconds"]
    frame = pd.DataFrame({
        COLLECTIVES[2]: seconds.size(),
        COLLECTIVES[3]: grouped["bytes"].median(),
        COLLECTIVES[4]: 1e3 * seconds.median(),
        COLLECTIVES[5]: 1e3 * seconds.quantile(0.95),
        COLLECTIVES[6]: seconds.sum(),
    })  # fmt: skip
    longest = frame.sort_values(COLLECTIVES[6], ascending=False, kind="stable")
    return longest.reset_index()[list(COLLECTIVES)]


NETWORK = ("link", "rack")
NETWORK_CAUSES = frozenset(spec.cause for spec in CAUSES if spec.of_network)
WAITS_MUCH = 0.3
"""Share of the step from which communication is worth a look. Ours: scaling studies call a run
communication bound from about a third on."""
WAITS_LITTLE = 0.1
OFTEN = 2.0
"""Times its even share of the windows from which a rank that arrives last is worth a word."""
LINKS = ("where", "sure of place", "cause", "sure of cause", "slowdown", "since", "what was seen")
SURE = ("sure of place", "sure of cause")
LATE = ("rank", "windows in which it came last", "share", "late by (s)")


def headline(waits: Waits, verdict: Mapping[str, Any] | None, late: pd.DataFrame | None) -> Said:
    """The answer: a slow link where the verdict names one, else how much of a step is waiting.

    Args:
        waits: Shares of the step that ranks are in collectives.
        verdict: docs/reference/verdict.md, or None.
        late: Of `latest`; None without operations.
    """
    culprits = records((verdict or {}).get("culprits"))
    network = [culprit for culprit in culprits if _of_network(culprit)]
    if network:
        first = network[0]
        worse = any(rate.get("tier") == "page" for rate in network)
        cause = text(first.get("cause")) or "unknown"
        return Said(
            f"Yes: {who(first)} holds the run back ({cause}). {waits.words}",
            Severity.CRITICAL if worse else Severity.WARNING,
        )
    if culprits:
        names = " and ".join(who(culprit) for culprit in culprits[:2])
        more = f" and {len(culprits) - 2} more" if len(culprits) > 2 else ""
        return Said(
            f"No: the others wait for {names}{more}; the network is not the cause. {waits.words}",
            Severity.NOTE,
        )
    if not np.isfinite(waits.middle):
        return Said("How long ranks are in collectives is unknown in this range.", Severity.UNKNOWN)
    last = _last(late)
    if verdict is None or verdict.get("status") not in ("healthy", "degraded"):
        return Said(
            f"{waits.words}{last} Whether that is too long, only a verdict can say, and none that"
            " knows is at hand.",
            Severity.UNKNOWN,
        )
    if waits.middle < WAITS_LITTLE:
        return Said(f"No. {waits.words}{last}", Severity.OK)
    much = "That is a lot" if waits.middle >= WAITS_MUCH else "That is ordinary"
    return Said(
        f"{waits.words} {much}, and no slow link is named: it is what this layout exchanges.{last}",
        Severity.NOTE,
    )


def slow_links(verdict: Mapping[str, Any] | None) -> pd.DataFrame:
    """Links, leaves and nodes whose network the verdict accuses; columns `LINKS`."""
    rows = []
    for culprit in records((verdict or {}).get("culprits")):
        if _of_network(culprit):
            facts = "; ".join(
                text(fact.get("text")) for fact in records(culprit.get("evidence"))[:2]
            )
            rows.append((
                who(culprit), number(culprit.get("place_confidence")), text(culprit.get("cause")),
                number(culprit.get("confidence")), number(culprit.get("slowdown")),
                text(culprit.get("since")), facts,
            ))  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(LINKS))
    return frame.astype(dict.fromkeys((*SURE, "slowdown"), "float64"))


def latest(arrivals: Matrix) -> pd.DataFrame:
    """Who arrived last, most often first; columns `LATE`.

    Args:
        arrivals: As protocol.Source.arrivals gives it; windows that nobody told are left out.
    """
    told = np.isfinite(arrivals.values).any(axis=0)
    cells = arrivals.values[:, told]
    if not cells.size:
        return pd.DataFrame(columns=list(LATE))
    last = np.nanargmax(cells, axis=0)
    counts = np.bincount(last, minlength=len(arrivals.rows))
    known = np.isfinite(cells).any(axis=1)
    middle = np.full(len(arrivals.rows), np.nan)
    middle[known] = np.nanmedian(cells[known], axis=1)
    frame = pd.DataFrame({
        LATE[0]: list(arrivals.rows), LATE[1]: counts, LATE[2]: counts / counts.sum(),
        LATE[3]: middle,
    })  # fmt: skip
    return frame.sort_values(LATE[1], ascending=False, kind="stable", ignore_index=True)


def _of_network(culprit: Mapping[str, Any]) -> bool:
    return culprit.get("scope") in NETWORK or culprit.get("cause") in NETWORK_CAUSES


def _last(late: pd.DataFrame | None) -> str:
    if late is None or late.empty:
        return ""
    first = late.iloc[0]
    if float(first[LATE[2]]) * len(late) < OFTEN:
        return " No rank arrives last much more often than the others."
    name = str(first[LATE[0]])
    return (
        f" {name[:1].upper()}{name[1:]} arrives last most often, in"
        f" {cell(float(first[LATE[2]]), 'share')} of the windows, by"
        f" {cell(float(first[LATE[3]]), 'seconds')} in the middle."
    )
