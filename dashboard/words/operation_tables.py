"""Operations of one rank as tables, and which part of a run they are read from."""

import numpy as np
import pandas as pd

from lockstep.dashboard.shapes import Span

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
