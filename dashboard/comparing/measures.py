"""What was measured of two runs, line by line, and whether it differs for certain."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from lockstep.analyzer.align.grid import WARMUP_SHARE, WARMUP_STEPS
from lockstep.analyzer.report.sections.comparison import (
    STEPS_AT_LEAST,
    WORTH_TELLING,
    middles,
    ratio,
)
from lockstep.dashboard.shapes import Floats, Lines

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
    found: Floats = values[after & np.isfinite(values)]
    return found


def _measure(chart: Lines, name: str, a: Floats, b: Floats, most: float) -> Measure:
    told = ratio(b, a)
    effect, chance = _tested(a, b)
    certain = (
        told is not None
        and chance < most
        and not told[1] <= 1.0 <= told[2]
        and abs(told[0] - 1.0) >= WORTH_TELLING
    )
    return Measure(
        chart=chart.key,
        name=chart.title if len(chart.values) == 1 else f"{chart.title}, {name}",
        unit=chart.unit,
        a=float(np.median(a)),
        b=float(np.median(b)),
        ratio=None if told is None else told[0],
        interval=None if told is None else (told[1], told[2]),
        effect=effect,
        chance=chance,
        certain=certain,
    )


def _tested(a: Floats, b: Floats) -> tuple[float, float]:
    if min(len(a), len(b)) < STEPS_AT_LEAST:
        return np.nan, np.nan
    one, other = middles(b), middles(a)
    found = stats.mannwhitneyu(one, other, alternative="two-sided")
    return float(2.0 * found.statistic / (len(one) * len(other)) - 1.0), float(found.pvalue)
