"""Up to eight runs beside each other: their lines on one grid of steps, and each against the first.

A run that is shown has a letter: a is what all others are held against.
"""

from collections.abc import Sequence
from string import ascii_lowercase

import numpy as np
import pandas as pd

from lockstep.dashboard.comparing.measures import measures, steady
from lockstep.dashboard.shapes import Floats, Lines, RunRow

MOST = 8
"""Lines that can be told apart on one chart (figures.traces.AT_MOST)."""
POINTS = 300
CHARTS = {"step": ("median", "p50"), "loss": (), "throughput": ()}
"""Key of a chart -> which of its lines stands for a run; none of these = its first."""
COLUMNS = ("which", "run", "step (s)", "against a", "at least", "at most", "certain", "last loss",
           "verdict", "lost (GPU-h)", "tags")  # fmt: skip


def letters(count: int) -> tuple[str, ...]:
    """The letters of so many runs."""
    return tuple(ascii_lowercase[:count])


def overlaid(runs: Sequence[Sequence[Lines]]) -> tuple[Lines, ...]:
    """One chart a measure, with a line a run, by steps since the first one of each run.

    Args:
        runs: Charts of each run, in the order of their letters.
    """
    found = []
    for key, wanted in CHARTS.items():
        charts = [next((each for each in some if each.key == key), None) for some in runs]
        told = [one for one in charts if one is not None and _line(one, wanted) is not None]
        if len(told) < 2 or len({one.unit for one in told}) > 1:
            continue
        longest = max(_length(one) for one in told)
        if not longest > 0:
            continue
        width = max(1.0, np.ceil(longest / POINTS))
        edges = np.arange(0.0, longest + width, width)
        values = {
            letter: _binned(one, wanted, edges)
            for letter, one in zip(letters(len(runs)), charts, strict=True)
            if one is not None and _line(one, wanted) is not None
        }
        sampling = f"medians of {width:.0f} steps" if width > 1 else ""
        found.append(Lines(key, told[0].title, told[0].unit, edges[:-1], values, edges[:-1],
                           sampling=sampling, help=told[0].help))  # fmt: skip
    return tuple(found)


def table(rows: Sequence[RunRow], runs: Sequence[Sequence[Lines]]) -> pd.DataFrame:
    """One row a run, each held against the first; what is not known is empty.

    Returns:
        Columns COLUMNS; ratios and their intervals are what a run has more than a, a share of a.
    """
    told = []
    for place, (letter, row) in enumerate(zip(letters(len(rows)), rows, strict=True)):
        step = None
        if place:
            found = measures(runs[0], runs[place])
            step = next((one for one in found if one.chart == "step"), None)
        low, high = step.interval if step and step.interval else (None, None)
        told.append((
            letter, row.run, _settled(runs[place]), step.ratio if step else None, low, high,
            "" if not place else "not known" if step is None or step.ratio is None
            else "yes" if step.certain else "within noise",
            _last(runs[place], "loss"), row.status or "not analyzed", row.lost_gpu_hours,
            " ".join(row.tags),
        ))  # fmt: skip
    frame = pd.DataFrame(told, columns=list(COLUMNS))
    numbers = ("step (s)", "against a", "at least", "at most", "last loss", "lost (GPU-h)")
    frame = frame.astype(dict.fromkeys(numbers, "float64"))
    frame[["against a", "at least", "at most"]] -= 1.0
    return frame


def answer(frame: pd.DataFrame) -> str:
    """Which is the slowest and which the quickest, of those that differ from a for certain."""
    sure = frame[frame["certain"] == "yes"].sort_values("against a")
    if sure.empty:
        others = frame["certain"].iloc[1:]
        unknown = int((others == "not known").sum())
        if unknown == len(others):
            return "Which runs differ from a in their step time is not known: none was measured."
        if unknown:
            return (
                f"None of {len(others) - unknown} runs differs from a for certain in its step"
                f" time; of {unknown} it is not known."
            )
        return f"None of {len(frame) - 1} runs differs from a for certain in its step time."
    first, last = sure.iloc[0], sure.iloc[-1]
    parts = [f"{row['which']} by {row['against a']:+.1%}"
             for row in ([first] if len(sure) == 1 else [last, first])]  # fmt: skip
    return f"{len(sure)} of {len(frame) - 1} runs differ from a for certain: {', '.join(parts)}."


def _line(chart: Lines, wanted: Sequence[str]) -> Floats | None:
    names = [*(name for name in wanted if name in chart.values), *chart.values]
    name = next((each for each in names if np.isfinite(chart.values[each]).any()), None)
    return None if name is None else chart.values[name]


def _since_start(chart: Lines) -> Floats:
    """Steps since the first one; without steps, moments by their number."""
    if chart.steps is None or not np.isfinite(chart.steps).any():
        return np.arange(len(chart.times), dtype=np.float64)
    counted: Floats = chart.steps - np.nanmin(chart.steps)
    return counted


def _length(chart: Lines) -> float:
    return float(np.nanmax(_since_start(chart))) + 1.0 if len(chart.times) else 0.0


def _binned(chart: Lines, wanted: Sequence[str], edges: Floats) -> Floats:
    values, steps = _line(chart, wanted), _since_start(chart)
    assert values is not None
    known = np.isfinite(values) & np.isfinite(steps)
    place = np.digitize(steps[known], edges) - 1
    found = pd.Series(values[known]).groupby(place).median()
    line = np.full(len(edges) - 1, np.nan)
    inside = found.index[(found.index >= 0) & (found.index < len(line))]
    line[inside] = found[inside]
    return line


def _settled(charts: Sequence[Lines]) -> float | None:
    chart = next((one for one in charts if one.key == "step" and one.values), None)
    if chart is None:
        return None
    name = next((each for each in CHARTS["step"] if each in chart.values), next(iter(chart.values)))
    values = steady(chart, name)
    return float(np.median(values)) if len(values) else None


def _last(charts: Sequence[Lines], key: str) -> float | None:
    chart = next((one for one in charts if one.key == key), None)
    line = None if chart is None else _line(chart, ())
    return None if line is None else float(line[np.isfinite(line)][-1])
