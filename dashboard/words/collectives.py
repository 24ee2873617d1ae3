"""Is communication the limit? In words, from shares of waiting, arrivals and the verdict."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from lockstep.analyzer.causes.registry import CAUSES
from lockstep.analyzer.report.figures import cell
from lockstep.dashboard.shapes import Matrix, Severity
from lockstep.dashboard.words.reading import number, records, text
from lockstep.dashboard.words.said import Said
from lockstep.dashboard.words.verdict import who
from lockstep.dashboard.words.waiting import Waits

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
    network = [each for each in culprits if _of_network(each)]
    if network:
        first = network[0]
        worse = any(each.get("tier") == "page" for each in network)
        cause = text(first.get("cause")) or "unknown"
        return Said(
            f"Yes: {who(first)} holds the run back ({cause}). {waits.words}",
            Severity.CRITICAL if worse else Severity.WARNING,
        )
    if culprits:
        names = " and ".join(who(each) for each in culprits[:2])
        more = f" and {len(culprits) - 2} more" if len(culprits) > 2 else ""
        return Said(
            f"No: the others wait for {names}{more}, which is no matter of the network."
            f" {waits.words}",
            Severity.NOTE,
        )
    if not np.isfinite(waits.middle):
        return Said(
            "How long ranks are in collectives is not known in this range.", Severity.UNKNOWN
        )
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
