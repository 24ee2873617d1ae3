"""Which ranks a table or chart shows where there are too many: culprits, and who is most unlike."""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.report import figures
from lockstep.analyzer.report.spans import Spans
from lockstep.analyzer.shapes.run import FloatGrid

MOST_ROWS = 16
MOST_CULPRITS = 8


def shown(cut: Spans, values: FloatGrid | Sequence[float | None]) -> list[int]:
    """At most MOST_ROWS columns, in order: culprits, then those farthest from the median.

    Args:
        cut: Who the culprits are.
        values: (R,) what the ranks are compared by; NaN or None = did not answer, which is shown
            first: who is silent matters.
    """
    told = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if len(told) <= MOST_ROWS:
        return list(range(len(told)))
    picked = list(cut.culprits[:MOST_CULPRITS])
    known = told[np.isfinite(told)]
    far = np.abs(told - (np.median(known) if known.size else 0.0))
    far = np.where(np.isfinite(far), far, np.inf)
    others = [int(each) for each in np.argsort(-far, kind="stable") if each not in picked]
    return sorted(picked + others[: MOST_ROWS - len(picked)])


def rest(
    cut: Spans, picked: Sequence[int], values: FloatGrid | Sequence[float | None], unit: str
) -> str | None:
    """A sentence on the ranks that are not shown; None where all are."""
    left = [value for column, value in enumerate(values) if column not in set(picked)]
    if not left:
        return None
    known = [value for value in left if value is not None and np.isfinite(value)]
    guilty = sum(column not in set(picked) for column in cut.culprits)
    words = f"{len(left)} more ranks are not listed"
    words += f", {guilty} of them culprits" if guilty else ""
    if known:
        low, high = (figures.cell(float(each), unit) for each in (min(known), max(known)))
        words += f"; theirs lie between {low} and {high}"
    return f"{words}."
