"""Timelines for ui.perfetto.dev: what every rank did, and beside it what it had done ideally."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lockstep.analyzer.read.optrace.load import run_of_trace, trace_of_run
from lockstep.analyzer.report.perfetto.events import document
from lockstep.analyzer.report.perfetto.operations import (
    NoIdealError,
    actual,
    ideal,
    in_turn,
    on_clock,
    simulated_slices,
)
from lockstep.analyzer.shapes.operations import Ints, Trace
from lockstep.analyzer.shapes.run import LoadError, RankInfo, Run

MOST_SLICES = 2_000_000
"""About 400 MB of JSON; browsers bear no more."""


class TimelineError(ValueError):
    """There is nothing to show, or too much; the message says what would do."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Slices of some steps.

    Attributes:
        slices: slices.COLUMNS.
        ranks: Who the ranks are.
        name: The run.
        without_ideal: Why the ideal is not there, or None.
    """

    slices: pd.DataFrame
    ranks: tuple[RankInfo, ...]
    name: str
    without_ideal: str | None

    def parts(self) -> Iterator[str]:
        """The file, in parts."""
        about = {"run": self.name, "without_ideal": self.without_ideal}
        return document(self.slices, self.ranks, about)


def of_run(run: Run, steps: range) -> Timeline:
    """Actual operations of an archive, tensor-parallel ranks apart; ideal ones of the workers.

    Raises:
        TimelineError: There are no operations of these steps, or too many.
    """
    if run.ops is None:
        raise TimelineError(f"{run.name} has no operations; a timeline needs ops.parquet")
    there = run.ops["step"]
    if not there.between(steps.start, steps.stop - 1).any():
        raise TimelineError(_elsewhere(run.name, steps, int(there.min()), int(there.max())))
    slices, why = actual(run, steps), None
    try:
        trace = trace_of_run(run)
        slices = _both(slices, ideal(trace, on_clock(trace, run), steps))
    except (NoIdealError, LoadError) as error:
        why = str(error)
    return _bounded(Timeline(slices, run.ranks, run.name, why))


def of_trace(trace: Trace, steps: range) -> Timeline:
    """Actual and ideal operations of a foreign op trace.

    Raises:
        TimelineError: There are no operations of these steps, or too many.
    """
    begins, ranks = in_turn(trace), run_of_trace(trace).ranks
    if not ((trace.steps >= steps.start) & (trace.steps < steps.stop)).any():
        first, last = int(trace.steps[0]), int(trace.steps[-1])
        raise TimelineError(_elsewhere(trace.name, steps, first, last))
    try:
        slices, why = simulated_slices(trace, begins, steps), None
    except NoIdealError as error:
        raise TimelineError(str(error)) from error
    try:
        slices = _both(slices, ideal(trace, begins, steps))
    except NoIdealError as error:
        why = str(error)
    return _bounded(Timeline(slices, ranks, trace.name, why))


def steps_around(numbers: Ints, onset: int | None, before: int = 5, count: int = 10) -> range:
    """The steps to show when nobody chose any: around a culprit's first, or the last ones.

    Args:
        numbers: Of all steps, perhaps with gaps and repeats; at least one.
        onset: The culprit's first step.
        before: How many steps to show before it.
        count: How many in all.
    """
    there = np.unique(numbers)
    begin = len(there) if onset is None else int(np.searchsorted(there, onset)) - before
    begin = max(0, min(begin, len(there) - count))
    shown = there[begin : begin + count]
    return range(int(shown[0]), int(shown[-1]) + 1)


def _both(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    parts = [part for part in (first, second) if len(part)]
    return pd.concat(parts, ignore_index=True)


def _elsewhere(name: str, steps: range, first: int, last: int) -> str:
    return (
        f"{name} has no operations of steps {steps.start}:{steps.stop};"
        f" it has those of steps {first}:{last + 1}"
    )


def _bounded(timeline: Timeline) -> Timeline:
    if (count := len(timeline.slices)) > MOST_SLICES:
        raise TimelineError(
            f"a timeline of {count} slices is too large to open; choose fewer --steps"
        )
    return timeline
