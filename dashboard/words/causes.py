"""Why somebody is slow: causes in the order of their probability, with what speaks for and against.

Everything is read from the verdict; nothing is weighed here.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lockstep.analyzer.causes.registry import CAUSE_WORDS
from lockstep.dashboard.words.reading import number, records, text
from lockstep.dashboard.words.verdict import who

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
    told = ((fact.get("for") is True, text(fact.get("text"))) for fact in facts)
    return tuple(sorted(told, key=lambda one: not one[0]))


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
    told = number(value)
    return None if told is None else round(told, 2)
