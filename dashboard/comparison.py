"""Runs beside each other: every measured line, nodes, ranks and phases, and what is certain."""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np
import pandas as pd
from scipy import stats

from lockstep.analyzer.align.grid import WARMUP_SHARE, WARMUP_STEPS
from lockstep.analyzer.report.sections.comparison import (
    STEPS_AT_LEAST,
    WORTH_TELLING,
    middles,
    ratio,
)
from lockstep.collector.contract.words import PHASES
from lockstep.dashboard.shapes import Floats, Lines, RunRow

CHANCE = 0.05
"""All lines together: a difference is certain when chance alone would show one of them so large
less often than this (Bonferroni)."""
TEST = "Mann-Whitney U, two-sided, over medians of groups of neighbouring steps"
"""SOURCE: scipy.stats.mannwhitneyu; the groups as analyzer/stats/changepoint.py makes them,
because neighbouring steps are not independent."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One line of both runs, warm-up left out.

    Attributes:
        chart: Key of its chart.
        name: As `Step time, p50`.
        unit: Of shapes.Lines.
        a, b: Medians.
        ratio: b over a; None = too few values, or one of them is 0.
        interval: Its 95 % interval, by a bootstrap over groups of neighbouring steps.
        effect: Cliff's delta: how much more often a value of b is above one of a than below, from
            -1 to 1; NaN = too few values.
        chance: The p of TEST; NaN = too few values.
        certain: Whether it differs, all lines together at CHANCE, by more than WORTH_TELLING.
    """

    chart: str
    name: str
    unit: str
    a: float
    b: float
    ratio: float | None
    interval: tuple[float, float] | None
    effect: float
    chance: float
    certain: bool


def measures(a: Sequence[Lines], b: Sequence[Lines]) -> tuple[Measure, ...]:
    """Every line that both runs have, in the order of their charts.

    Edges of bands are left out: they say how wide a line is.
    """
    there = {chart.key: chart for chart in b}
    pairs = [
        (chart, there[chart.key], name)
        for chart in a
        if chart.key in there and chart.unit == there[chart.key].unit
        for name in chart.values
        if name in there[chart.key].values and name not in (chart.band or ())
    ]
    values = [(steady(one, name), steady(other, name)) for one, other, name in pairs]
    kept = [
        (pair[0], pair[2], left, right)
        for pair, (left, right) in zip(pairs, values, strict=True)
        if len(left) and len(right)
    ]
    return tuple(_measure(*each, CHANCE / max(len(kept), 1)) for each in kept)


def steady(lines: Lines, name: str) -> Floats:
    """Its known values after warm-up: the first 2 % of the steps, at least 3 of them, are left out.

    Lines without steps are cut by the same share of their moments.
    """
    values = lines.values[name]
    if lines.steps is None or not np.isfinite(lines.steps).any():
        cut = int(np.ceil(WARMUP_SHARE * len(values)))
        after = np.arange(len(values)) >= cut
    else:
        first, last = np.nanmin(lines.steps), np.nanmax(lines.steps)
        after = lines.steps >= first + max(WARMUP_STEPS, WARMUP_SHARE * (last + 1 - first))
    medians: Floats = values[after & np.isfinite(values)]
    return medians


def _measure(chart: Lines, name: str, a: Floats, b: Floats, most: float) -> Measure:
    change = ratio(b, a)
    effect, chance = _tested(a, b)
    certain = (
        change is not None
        and chance < most
        and not change[1] <= 1.0 <= change[2]
        and abs(change[0] - 1.0) >= WORTH_TELLING
    )
    return Measure(
        chart=chart.key,
        name=chart.title if len(chart.values) == 1 else f"{chart.title}, {name}",
        unit=chart.unit,
        a=float(np.median(a)),
        b=float(np.median(b)),
        ratio=None if change is None else change[0],
        interval=None if change is None else (change[1], change[2]),
        effect=effect,
        chance=chance,
        certain=certain,
    )


def _tested(a: Floats, b: Floats) -> tuple[float, float]:
    if min(len(a), len(b)) < STEPS_AT_LEAST:
        return np.nan, np.nan
    one, other = middles(b), middles(a)
    test = stats.mannwhitneyu(one, other, alternative="two-sided")
    return float(2.0 * test.statistic / (len(one) * len(other)) - 1.0), float(test.pvalue)


# Where two runs ran, and how their ranks and phases compare: from the tables of their ranks.

SHARE_WORTH = 1 / 3
"""A phase is named when it makes up this much of the change of a step, at least."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes of two runs: those that only one of them had, and how many both had."""

    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    both: int


def nodes(a: pd.DataFrame, b: pd.DataFrame) -> Nodes:
    """From their ranks (Source.ranks)."""
    one, other = set(a["node"]), set(b["node"])
    return Nodes(tuple(sorted(one - other)), tuple(sorted(other - one)), len(one & other))


def phases(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Seconds per step of each phase: the median over ranks of both runs, and the difference.

    Returns:
        Columns `phase, a, b, difference, change`: seconds, and `change` as a share of a; phases
        that neither run has are left out.
    """
    rows = []
    for phase in PHASES:
        one, other = _middle(a, phase), _middle(b, phase)
        if np.nan_to_num(one) or np.nan_to_num(other):
            rows.append((phase, one, other, other - one, other / one - 1.0 if one else np.nan))
    frame = pd.DataFrame(rows, columns=["phase", "a", "b", "difference", "change"])
    return frame.astype(dict.fromkeys(["a", "b", "difference", "change"], "float64"))


def moved(frame: pd.DataFrame, a: pd.DataFrame, b: pd.DataFrame) -> tuple[str, ...]:
    """The phases that make up the change of the step time, the largest first.

    Args:
        frame: As phases() gives it.
        a: Ranks of one run.
        b: Ranks of the other.
    """
    change = float(b["wall_seconds"].median() - a["wall_seconds"].median())
    if not np.isfinite(change) or change == 0.0:
        return ()
    share = frame["difference"] / change
    named = frame.assign(share=share)[share >= SHARE_WORTH].sort_values("share", ascending=False)
    return tuple(named["phase"])


def _middle(ranks: pd.DataFrame, phase: str) -> float:
    column = f"{phase}_seconds"
    if column not in ranks or not ranks[column].notna().any():
        return float("nan")
    return float(ranks[column].median())


# Up to eight runs beside each other: their lines on one grid of steps, and each against the first.
#
# A run that is shown has a letter: a is what all others are held against.

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
    charts_on_grid = []
    for key, wanted in CHARTS.items():
        charts = [next((each for each in some if each.key == key), None) for some in runs]
        with_line = [
            chart for chart in charts if chart is not None and _line(chart, wanted) is not None
        ]
        if len(with_line) < 2 or len({one.unit for one in with_line}) > 1:
            continue
        longest = max(_length(one) for one in with_line)
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
        first = with_line[0]
        charts_on_grid.append(
            Lines(key, first.title, first.unit, edges[:-1], values, edges[:-1], sampling=sampling,
                  help=first.help)
        )  # fmt: skip
    return tuple(charts_on_grid)


def table(rows: Sequence[RunRow], runs: Sequence[Sequence[Lines]]) -> pd.DataFrame:
    """One row a run, each held against the first; what is unknown is empty.

    Returns:
        Columns COLUMNS; ratios and their intervals are what a run has more than a, a share of a.
    """
    rows_measured = []
    for index, (letter, row) in enumerate(zip(letters(len(rows)), rows, strict=True)):
        step = None
        if index:
            measured = measures(runs[0], runs[index])
            step = next((one for one in measured if one.chart == "step"), None)
        low, high = step.interval if step and step.interval else (None, None)
        rows_measured.append((
            letter, row.run, _settled(runs[index]), step.ratio if step else None, low, high,
            "" if not index else "unknown" if step is None or step.ratio is None
            else "yes" if step.certain else "within noise",
            _last(runs[index], "loss"), row.status or "not analyzed", row.lost_gpu_hours,
            " ".join(row.tags),
        ))  # fmt: skip
    frame = pd.DataFrame(rows_measured, columns=list(COLUMNS))
    numbers = ("step (s)", "against a", "at least", "at most", "last loss", "lost (GPU-h)")
    frame = frame.astype(dict.fromkeys(numbers, "float64"))
    frame[["against a", "at least", "at most"]] -= 1.0
    return frame


def answer(frame: pd.DataFrame) -> str:
    """Which is the slowest and which the quickest, of those that differ from a for certain."""
    sure = frame[frame["certain"] == "yes"].sort_values("against a")
    if sure.empty:
        others = frame["certain"].iloc[1:]
        unknown = int((others == "unknown").sum())
        if unknown == len(others):
            return "Which runs differ from a in their step time is unknown: none was measured."
        if unknown:
            return (
                f"None of {len(others) - unknown} runs differs from a for certain in its step"
                f" time; {unknown} {'is' if unknown == 1 else 'are'} unknown."
            )
        return f"None of {len(frame) - 1} runs differs from a for certain in its step time."
    first, last = sure.iloc[0], sure.iloc[-1]
    parts = [f"{row['which']} by {row['against a']:+.1%}"
             for row in ([first] if len(sure) == 1 else [last, first])]  # fmt: skip
    return f"{len(sure)} of {len(frame) - 1} runs differ from a for certain: {', '.join(parts)}."


def _line(chart: Lines, wanted: Sequence[str]) -> Floats | None:
    names = [*(name for name in wanted if name in chart.values), *chart.values]
    name = next((name for name in names if np.isfinite(chart.values[name]).any()), None)
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
    medians = pd.Series(values[known]).groupby(place).median()
    line = np.full(len(edges) - 1, np.nan)
    inside = medians.index[(medians.index >= 0) & (medians.index < len(line))]
    line[inside] = medians[inside]
    return line


def _settled(charts: Sequence[Lines]) -> float | None:
    chart = next((chart for chart in charts if chart.key == "step" and chart.values), None)
    if chart is None:
        return None
    name = next((each for each in CHARTS["step"] if each in chart.values), next(iter(chart.values)))
    values = steady(chart, name)
    return float(np.median(values)) if len(values) else None


def _last(charts: Sequence[Lines], key: str) -> float | None:
    chart = next((chart for chart in charts if chart.key == key), None)
    line = None if chart is None else _line(chart, ())
    return None if line is None else float(line[np.isfinite(line)][-1])
