"""A run's steps, one value a step: all that charts over time need, and a rank's share of it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.read.archive.steps import MOST_STEPS, Steps, quantiles
from lockstep.collector.contract.words import PHASES, STEP_TAGS
from lockstep.dashboard.shapes import Floats, Span

PHASE_COLUMNS = tuple(f"{phase}_seconds" for phase in PHASES)
COLUMNS = ("loss", "samples", "tokens", "flops", *PHASE_COLUMNS, "tags")
"""Of contract.archive.STEPS, beside steps.ALWAYS."""
QUANTILES = {"p5": 0.05, "median": 0.5, "p95": 0.95}


@dataclass(frozen=True, slots=True)
class Summary:
    """Steps of all ranks together; a step that was done again has a place an attempt.

    Attributes:
        steps: (W,) optimizer step.
        attempts: (W,) restart count.
        start: (W,) unix seconds at which the first rank began it, rising.
        wall: (W,) seconds it took, median over ranks.
        lines: Name -> (W,) over ranks, NaN = nobody told: those of QUANTILES and `slowest` of the
            wall time, `samples` and `tokens` summed, `loss`, `flops` and each phase as means.
        tags: Word of STEP_TAGS -> (W,) whether any rank tagged it so.
    """

    steps: NDArray[np.int64]
    attempts: NDArray[np.int64]
    start: Floats
    wall: Floats
    lines: Mapping[str, Floats]
    tags: Mapping[str, NDArray[np.bool_]]

    @property
    def keys(self) -> NDArray[np.int64]:
        """(W,) attempt and step as one number."""
        return key(self.attempts, self.steps)

    def only(self, kept: "NDArray[np.bool_] | NDArray[np.int64] | slice") -> "Summary":
        """Some of the steps, or all of them in another order."""
        return Summary(
            self.steps[kept], self.attempts[kept], self.start[kept], self.wall[kept],
            {name: line[kept] for name, line in self.lines.items()},
            {tag: told[kept] for tag, told in self.tags.items()},
        )  # fmt: skip

    def during(self, span: Span | None) -> "Summary":
        """The steps that began in a span; None = all."""
        if span is None:
            return self
        first, last = np.searchsorted(self.start, [span.start, span.end])
        return self.only(slice(int(first), int(last)))


def key(attempts: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Attempt and step as one number that rises with a run."""
    return attempts * MOST_STEPS + steps


def summed(told: Steps) -> Summary:
    """Of steps with COLUMNS."""
    cells = told.cells
    wall = cells["wall_seconds"]
    lines = dict(zip(QUANTILES, quantiles(wall, list(QUANTILES.values())), strict=True))
    lines["slowest"] = np.fmax.reduce(wall, axis=1) if wall.shape[1] else told.wall
    for name in ("samples", "tokens"):
        lines[name] = mean(cells[name]) * np.isfinite(cells[name]).sum(axis=1)
    for name in ("loss", "flops", *PHASE_COLUMNS):
        lines[name] = mean(cells[name])
    return Summary(told.steps, told.attempts, told.start, told.wall, lines, told.tags)


def nothing() -> Summary:
    """Of no step."""
    none, numbers = np.zeros(0), np.zeros(0, dtype=np.int64)
    names = (*QUANTILES, "slowest", "samples", "tokens", "loss", "flops", *PHASE_COLUMNS)
    return Summary(numbers, numbers, none, none, dict.fromkeys(names, none),
                   {tag: np.zeros(0, dtype=bool) for tag in STEP_TAGS})  # fmt: skip


def joined(one: Summary, other: Summary) -> Summary:
    """Both, in the order of time."""
    both = Summary(
        np.concatenate([one.steps, other.steps]), np.concatenate([one.attempts, other.attempts]),
        np.concatenate([one.start, other.start]), np.concatenate([one.wall, other.wall]),
        {name: np.concatenate([line, other.lines[name]]) for name, line in one.lines.items()},
        {tag: np.concatenate([told, other.tags[tag]]) for tag, told in one.tags.items()},
    )  # fmt: skip
    rising = not len(both.start) or bool((np.diff(both.start) >= 0).all())
    return both if rising else both.only(np.argsort(both.start, kind="stable"))


def mean(values: Floats) -> Floats:
    """(W,) over ranks that told; NaN where nobody did."""
    told = np.isfinite(values)
    if told.all():
        found: Floats = values.mean(axis=1) if values.shape[1] else np.full(len(values), np.nan)
        return found
    count = told.sum(axis=1)
    whole = np.where(told, values, 0.0).sum(axis=1)
    return np.where(count > 0, whole / np.maximum(count, 1), np.nan)
