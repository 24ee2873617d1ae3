"""The numbers of charts as tables: one chart wide, several charts long."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dashboard.shapes import Floats, Lines


def wide(lines: Lines) -> pd.DataFrame:
    """One row a moment, one column a line."""
    steps = {} if lines.steps is None else {"step": lines.steps}
    return pd.DataFrame({"time (UTC)": _moments(lines.times), **steps, **dict(lines.values)})


def long(charts: Sequence[Lines]) -> pd.DataFrame:
    """One row a moment and line of every chart, as each chart has its own moments.

    Returns:
        Columns `chart, line, unit, time (UTC), step, value`; `step` is NaN where nobody told it.
    """
    pieces = [(chart, name) for chart in charts for name in chart.values]
    if not pieces:
        return pd.DataFrame(columns=["chart", "line", "unit", "time (UTC)", "step", "value"])
    sizes = [len(chart.times) for chart, _ in pieces]
    return pd.DataFrame(
        {
            "chart": _repeated([chart.title for chart, _ in pieces], sizes),
            "line": _repeated([name for _, name in pieces], sizes),
            "unit": _repeated([chart.unit for chart, _ in pieces], sizes),
            "time (UTC)": _moments(np.concatenate([chart.times for chart, _ in pieces])),
            "step": np.concatenate([_steps(chart) for chart, _ in pieces]),
            "value": np.concatenate([chart.values[name] for chart, name in pieces]),
        }
    )


def _steps(chart: Lines) -> Floats:
    return np.full(len(chart.times), np.nan) if chart.steps is None else chart.steps


def _moments(times: Floats) -> pd.DatetimeIndex:
    return pd.to_datetime(np.round(times * 1e3), unit="ms", utc=True)


def _repeated(words: Sequence[str], sizes: Sequence[int]) -> "pd.Categorical[str]":
    known = list(dict.fromkeys(words))
    places = {word: place for place, word in enumerate(known)}
    codes = np.repeat(np.array([places[word] for word in words]), sizes)
    return pd.Categorical.from_codes(codes, categories=pd.Index(known))
