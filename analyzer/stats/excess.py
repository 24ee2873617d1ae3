"""How the excess of a slow rank goes inside its span, by windows."""

from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import Blocks, Shift
from lockstep.analyzer.stats.robust_stats import MOSTLY, median_of, quantiles_of
from lockstep.analyzer.stats.temporal_shape import CUT, Shape, oscillation, plateau, ramp_start


@dataclass(frozen=True, slots=True)
class Excess:
    """What windows tell of a span.

    Attributes:
        shape: How it goes.
        first: First window; a ramp begins before it stands out.
        last: The window after the last, None = to the end; a periodic one goes on where its next
            turn is not overdue.
        effect: Log excess over the span: the median, of a periodic one the mean.
        share: Of its steps that a periodic excess is in force.
        every: Steps from turn to turn, to the resolution of the windows; None = no turns.
    """

    shape: Shape
    first: int
    last: int | None
    effect: float
    share: float = 1.0
    every: int | None = None


def excess(
    grid: Grid, groups: Blocks, shift: Shift, ratio: FloatGrid, edges: tuple[int, int | None]
) -> Excess:
    """How a rank's excess goes between `edges` (last None = to the end).

    Args:
        grid: The run's windows.
        groups: The blocks, n windows in all.
        shift: The span of blocks.
        ratio: (n,) the rank's log own time over its peers' in each of those windows.
        edges: First window of the span and the one after the last.
    """
    first, last = edges
    stop = len(grid.start) if last is None else last
    level = shift.inside - shift.effect
    by_window = np.full(len(grid.start), np.nan)
    by_window[np.concatenate(groups.members)] = ratio - level
    seen = oscillation(by_window[first:stop])
    # When it is off most of it must not be there, as of a steady one with ripples; windows that are
    # no multiple of a turn hold parts of both levels.
    if seen is not None and seen.high > 0 and seen.low <= MOSTLY * seen.high:
        steps = float(np.mean((grid.to_step - grid.from_step)[first:stop]))
        return Excess(
            Shape.PERIODIC,
            first,
            None if len(grid.start) - stop < seen.period else last,
            _mean(by_window[first:stop]),
            seen.share,
            max(round(seen.period * steps), 2),
        )
    by_block = np.array([median_of(by_window[members]) for members in groups.members])
    begun = ramp_start(by_block, shift.last)
    if begun is not None:
        middle = median_of(by_window[groups.first(begun) : stop])
        if middle > 0:
            return Excess(Shape.RAMP, min(groups.first(begun), first), last, middle)
    # A climb to a level that stays begins before it stands out.
    climb = plateau(by_block[: shift.last], shift.effect)
    first = first if climb is None else min(groups.first(climb), first)
    return Excess(Shape.CONSTANT if last is None else Shape.TRANSIENT, first, last, shift.effect)


def _mean(cells: FloatGrid) -> float:
    """Without what a stall of the scheduler adds."""
    there = cells[np.isfinite(cells)]
    low, high = quantiles_of(there, CUT, 1 - CUT)
    return float(np.mean(np.clip(there, low, high)))
