"""The verdict of a part of a run's ranks, as one about the run: its coverage and its cost."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from analyzer.attribute import COVERAGE_AT_LEAST, Diagnosis
from analyzer.pushdown.suspects import Answered
from analyzer.run import Verdict
from analyzer.sentence import sentence

PER_DAY = ("gpu_hours", "interval", "money", "money_interval")
"""What of `Verdict.lost_per_day` grows with the number of ranks."""


def of_whole_run(diagnosis: Diagnosis, answered: Answered) -> Verdict:
    """All ranks wait for the slowest, so each loses what each of those that were read loses.

    A run of which most ranks are silent is not healthy, whatever the others say.

    Args:
        diagnosis: Of the ranks that were read.
        answered: How many of all ranks the rules know.
    """
    verdict, grid = diagnosis.verdict, diagnosis.grid
    factor = answered.expected / len(grid.ranks) if grid.ranks else 1.0
    scaled = dataclasses.replace(
        verdict,
        coverage=verdict.coverage * answered.coverage,
        lost_gpu_hours=_times(verdict.lost_gpu_hours, factor),
        lost_gpu_hours_interval=_each(verdict.lost_gpu_hours_interval, factor),
        lost_money=_times(verdict.lost_money, factor),
        lost_money_interval=_each(verdict.lost_money_interval, factor),
        lost_per_day=_per_day(verdict.lost_per_day, factor),
    )
    if verdict.status == "unknown":
        return scaled
    if verdict.status == "healthy" and answered.coverage < COVERAGE_AT_LEAST:
        why = f"only {answered.coverage:.0%} of the ranks told Prometheus' rules of their steps"
        return sentence(dataclasses.replace(scaled, status="unknown"), grid, why)
    return sentence(scaled, grid, None)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _each(interval: tuple[float, float] | None, factor: float) -> tuple[float, float] | None:
    return None if interval is None else (interval[0] * factor, interval[1] * factor)


def _per_day(told: Mapping[str, Any] | None, factor: float) -> Mapping[str, Any] | None:
    if told is None:
        return None
    scaled = dict(told)
    for name in PER_DAY:
        value = told.get(name)
        if isinstance(value, (tuple, list)):
            scaled[name] = tuple(one * factor for one in value)
        elif value is not None:
            scaled[name] = value * factor
    return scaled
