"""What a run lost, so far and a day, as rows of the impact table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from analyzer.report import figures
from analyzer.run import Verdict


def losses(verdict: Verdict) -> list[list[str]]:
    """GPU-hours, and money where a price was given; what was not slow loses nothing a day."""
    rows = [
        ["lost", _between(verdict.lost_gpu_hours, verdict.lost_gpu_hours_interval, "gpu hours")]
    ]
    if verdict.lost_money is not None:
        money = _between(verdict.lost_money, verdict.lost_money_interval, "money")
        rows.append(["lost, at the price given", money])
    told = verdict.lost_per_day
    if told is None:
        return rows
    since = f"as in its last {figures.cell(told['over_seconds'], 'seconds')}"
    when = "if it goes on" if told["goes_on"] else "had it gone on"
    rows.append(
        [f"lost a day {when}, {since}", _between(told["gpu_hours"], told["interval"], "gpu hours")]
    )
    if told["money"] is not None:
        money = _between(told["money"], told["money_interval"], "money")
        rows.append([f"lost a day {when}, at the price given", money])
    return rows


def _between(value: Any, interval: Sequence[float] | None, unit: str) -> str:
    words = figures.cell(value, unit)
    if interval is None or not np.isfinite(interval).all() or interval[0] == interval[1]:
        return words
    low, high = (figures.cell(each, unit) for each in interval)
    return f"{words} (95 % interval {low} to {high})"
