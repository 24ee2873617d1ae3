"""Culprits of a verdict: which one an address is about, their causes and their evidence."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from lockstep.analyzer.causes.registry import CAUSE_WORDS
from lockstep.dashboard.address import Location
from lockstep.dashboard.shapes import FindingRow, RunRow
from lockstep.dashboard.words import verdict as verdict_words
from lockstep.dashboard.words.said import Said
from lockstep.dashboard.words.verdict import number, records, text, who, whole

Verdict = Mapping[str, Any]


def finding(location: Location, findings: Sequence[FindingRow]) -> FindingRow | None:
    """The finding that the address names; None where it names none, or one that is not known."""
    wanted = location.finding
    return next((row for row in findings if wanted and row.finding == wanted), None)


def first(verdict: Verdict | None, location: Location, row: FindingRow | None) -> Verdict | None:
    """A verdict whose first culprit is the one that the address is about, if it names one.

    Args:
        verdict: docs/reference/verdict.md, or None.
        location: The address; its rank, GPU or node where there is no finding.
        row: Of `finding`.
    """
    culprits = records((verdict or {}).get("culprits"))
    scores = [_fits(culprit, location, row) for culprit in culprits]
    if verdict is None or not any(scores):
        return verdict
    best = scores.index(max(scores))
    others = (each for at, each in enumerate(culprits) if at != best)
    return {**verdict, "culprits": [culprits[best], *others]}


def headline(
    verdict: Verdict | None, location: Location, row: FindingRow | None, run: RunRow, *, live: bool
) -> Said:
    """The sentence of the verdict; where the address is about another culprit, that one's first.

    Args:
        verdict: The verdict, as it was given.
        location: The address.
        row: Of `finding`.
        run: Of the page.
        live: Whether the run is watched.
    """
    said = verdict_words.headline(verdict, run, live=live)
    before = records((verdict or {}).get("culprits"))
    now = records((first(verdict, location, row) or {}).get("culprits"))
    if now and now[0] is before[0] and (row is None or _fits(now[0], location, row)):
        return said
    if row is not None and row.sentence:
        own = Said(row.sentence, row.severity)
    elif now and now[0] is not before[0]:
        own = Said(_sentence(now[0]), verdict_words.severity({"culprits": now[:1]}))
    else:
        return said
    return Said(f"{own.text.rstrip('.')}. Of the whole run: {said.text}", own.severity,
                said.command)  # fmt: skip


def _fits(culprit: Verdict, location: Location, row: FindingRow | None) -> int:
    """How much of what is asked for a culprit is; 0 = it is another one, or nobody is asked for."""
    asked: dict[str, object] = {"rank": location.rank, "gpu": location.gpu, "node": location.node}
    if row is not None:
        asked = {"link": row.link, "rank": row.rank, "gpu": row.gpu, "node": row.node}
    score = 0
    for name, wanted in asked.items():
        mine = whole(culprit.get(name)) if name in ("rank", "gpu") else text(culprit.get(name))
        if wanted in ("", None) or mine in ("", None):
            continue
        if mine != wanted:
            return 0
        score += 2
    # One place may be named twice, for two causes.
    same = row is not None and text(culprit.get("cause")) == row.cause
    return score + same if score else 0


def _sentence(culprit: Verdict) -> str:
    who = verdict_words.who(culprit)
    cause = text(culprit.get("cause")) or "unknown"
    slower = number(culprit.get("slowdown"))
    times = "" if slower is None else f" is {slower:.2f}x slower than it should be"
    return f"{who[:1].upper()}{who[1:]}{times}: {CAUSE_WORDS.get(cause, cause)}."


CAUSES = ("who", "cause", "meaning", "confidence", "for", "against")
EVIDENCE = ("speaks", "observation", "where it comes from")
NO_EVIDENCE = "The verdict names no observation for it."


def causes(verdict: Mapping[str, Any]) -> pd.DataFrame:
    """One row a cause: those of the culprits, then those that the telemetry leaves possible.

    Returns:
        Columns `CAUSES`; `confidence` is the probability of the cause, `for` and `against`
        count observations.
    """
    rows: list[tuple[Any, ...]] = []
    for culprit in records(verdict.get("culprits")):
        facts = records(culprit.get("evidence"))
        speaks = sum(fact.get("for") is True for fact in facts)
        cause = text(culprit.get("cause")) or "unknown"
        rows.append(
            (who(culprit), cause, CAUSE_WORDS.get(cause, ""), _rounded(culprit.get("confidence")),
             speaks, len(facts) - speaks)
        )  # fmt: skip
    for other in records(verdict.get("alternatives")):
        cause = text(other.get("cause")) or "unknown"
        rows.append(
            ("instead", cause, CAUSE_WORDS.get(cause, ""), _rounded(other.get("confidence")), None,
             None)
        )  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(CAUSES))
    counts = {"for": "Int64", "against": "Int64"}
    return frame.astype({"confidence": "float64", **counts})


def observations(culprit: Mapping[str, Any]) -> tuple[tuple[bool, str], ...]:
    """Whether each speaks for the cause, and what was seen; those for it first."""
    facts = records(culprit.get("evidence"))
    seen = ((fact.get("for") is True, text(fact.get("text"))) for fact in facts)
    return tuple(sorted(seen, key=lambda one: not one[0]))


def evidence(culprit: Mapping[str, Any]) -> pd.DataFrame:
    """One row an observation, those for the cause first.

    Returns:
        Columns `EVIDENCE`.
    """
    facts = sorted(
        records(culprit.get("evidence")), key=lambda fact: fact.get("for") is not True
    )  # fmt: skip
    rows = [
        ("+ for" if fact.get("for") is True else "− against", text(fact.get("text")),
         text(fact.get("query")))
        for fact in facts
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(EVIDENCE))


def _rounded(value: Any) -> float | None:
    confidence = number(value)
    return None if confidence is None else round(confidence, 2)
