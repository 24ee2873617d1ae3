"""What the run would take without somebody: the figures of a verdict's `what_if`, explained."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lockstep.analyzer.report.sections.what_if import gives_back
from lockstep.dashboard.words.verdict import mapping, number, pair, records, text, texts

FIGURES = ("figure", "value", "at least", "at most", "what it says")
NAMES = {
    "S": "Run against ideal (S)",
    "S_strata": "Run against its middle workers (S_strata)",
    "M_W": "Explained by the worst workers (M_W)",
    "M_S": "Explained by the last stage (M_S)",
}
FIXES = ("without", "steps shorter by", "at least", "at most", "known by")
METHODS = {
    "simulation": "Simulated from the operations of all ranks: what waits for what is kept, and"
    " only the durations are replaced.",
    "bounds": "Bounds from the own time of each rank; without operations nothing can be simulated.",
}
EXPLAINED = {
    "S": "steps over steps in which all operations of a kind take as long as the middle one",
    "S_strata": "the same within stage, chunk and micro-batch: uneven by design is no loss here",
    "M_W": "share of the lost time that the worst 3 % of the workers explain; near 0: none of it",
    "M_S": "share of the lost time that the last stage explains; near 1: the model is uneven",
}
"""SOURCE: OSDI'25, arXiv 2505.05713, equations 1 to 5; S_strata is Lockstep's own."""
PARTS: tuple[tuple[str, str], ...] = (
    ("S_t", "operation {}"),
    ("S_dp", "replica {}"),
    ("S_pp", "pipeline stage {}"),
)
"""Parts of S: only that part stays as it was, everything else is ideal."""
ROWS_AT_MOST = 50
"""Of one part; the worst are told."""


def method(what_if: Mapping[str, Any]) -> str:
    """How the figures are known, or why there are none."""
    method = METHODS.get(text(what_if.get("method")))
    why = text(what_if.get("why"))
    if method is None:
        because = f": {why}" if why else " (they need operations, and own times of a slow rank)"
        return f"What the run would take without its culprits is unknown{because}."
    notes = "; ".join(texts(what_if.get("notes")))
    parts = (method, f"No simulation: {why}." if why else "", f"Note: {notes}." if notes else "")
    return " ".join(part for part in parts if part)


def figures(what_if: Mapping[str, Any]) -> pd.DataFrame:
    """One row a figure that is known: S, S_strata, M_W, M_S, then the parts of S, worst first.

    Returns:
        Columns `FIGURES`; an interval that is not told is NaN.
    """
    rows: list[tuple[Any, ...]] = []
    for key, words in EXPLAINED.items():
        value = number(what_if.get(key))
        if value is not None:
            rows.append((NAMES[key], value, *_ends(what_if.get(f"{key}_interval")), words))
    for key, name in PARTS:
        figures_by_part = {part: number(value) for part, value in mapping(what_if.get(key)).items()}
        known = sorted(
            ((part, value) for part, value in figures_by_part.items() if value is not None),
            key=lambda item: -item[1],
        )
        for part, value in known[:ROWS_AT_MOST]:
            named = name.format(part)
            words = f"with only {named} as it was and the rest ideal"
            rows.append((f"{named[0].upper()}{named[1:]} alone ({key})", value, None, None, words))
    return _typed(rows, FIGURES, ("value", "at least", "at most"))


def fixes(what_if: Mapping[str, Any]) -> pd.DataFrame:
    """One row a repair: what goes, and by what share of their time steps become shorter.

    Returns:
        Columns `FIXES`; an interval that is not told is NaN.
    """
    rows = []
    for fix in records(what_if.get("fixes")):
        by, over = text(fix.get("by")), text(fix.get("over"))
        known_by = ", ".join(part for part in (by, over) if part)
        rows.append(
            (text(fix.get("remove")), number(fix.get("gain")), *_ends(fix.get("interval")),
             known_by or text(what_if.get("method")))
        )  # fmt: skip
    return _typed(rows, FIXES, FIXES[1:4])


def without(what_if: Mapping[str, Any]) -> str:
    """The first repair in a sentence, as steps gained in the same time; empty without one."""
    for fix in records(what_if.get("fixes")):
        gain = number(fix.get("gain"))
        if gain is not None and text(fix.get("remove")):
            words = gives_back(
                {"remove": fix["remove"], "gain": gain, "interval": pair(fix.get("interval"))}
            )
            return f"{words[0].upper()}{words[1:]}."
    return ""


def _ends(value: Any) -> tuple[float | None, float | None]:
    return pair(value) or (None, None)


def _typed(
    rows: list[tuple[Any, ...]], columns: tuple[str, ...], numbers: tuple[str, ...]
) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns)).astype(dict.fromkeys(numbers, "float64"))
