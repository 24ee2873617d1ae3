"""The verdict of a part of a run's ranks, as one about the run; it asks nobody."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from lockstep.analyzer.rules.recording_rules.suspects import Answered
from lockstep.analyzer.shapes.run import NO_NODES_FAULT, Verdict
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.analyzer.verdict.sentence import sentence

PER_DAY = ("gpu_hours", "interval", "money", "money_interval")
"""What of `Verdict.lost_per_day` grows with the number of ranks."""


def of_whole_run(diagnosis: Diagnosis, answered: Answered) -> Verdict:
    """All ranks wait for the slowest, so each loses what each of those that were read loses.

    With one rank of which own time is not known nobody is cleared: it may hold back all the others.

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
    silent = answered.expected - round(answered.known)
    if silent <= 0 or verdict.culprits:
        return sentence(scaled, grid, None)
    why = (
        f"the own time of {silent} of {answered.expected} ranks is unknown to Prometheus' rules, at"
        " least in part: they were not scraped, or their waits were not timed"
        " (docs/ml/timed-waits.md)"
    )
    structure = tuple(one for one in verdict.structure if one["kind"] not in NO_NODES_FAULT)
    return sentence(dataclasses.replace(scaled, status="unknown", structure=structure), grid, why)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _each(interval: tuple[float, float] | None, factor: float) -> tuple[float, float] | None:
    return None if interval is None else (interval[0] * factor, interval[1] * factor)


def _per_day(lost: Mapping[str, Any] | None, factor: float) -> Mapping[str, Any] | None:
    if lost is None:
        return None
    scaled = dict(lost)
    for name in PER_DAY:
        value = lost.get(name)
        if isinstance(value, (tuple, list)):
            scaled[name] = tuple(one * factor for one in value)
        elif value is not None:
            scaled[name] = value * factor
    return scaled
