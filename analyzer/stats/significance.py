"""When a shift of a rank's own time becomes a Finding, and that Finding."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import Finding as Found
from lockstep.analyzer.shapes.run import FloatGrid, Grid, RankInfo
from lockstep.analyzer.shapes.wording import milliseconds
from lockstep.analyzer.stats.changepoint import BLOCK_STEPS_AT_LEAST, Blocks, Shift, refine
from lockstep.analyzer.stats.robust_stats import (
    MOSTLY,
    interval_95,
    mean_of,
    median_of,
    quantiles_of,
)
from lockstep.analyzer.stats.temporal_shape import (
    CUT,
    Shape,
    oscillation,
    plateau,
    ramp_start,
    words,
)
from lockstep.collector.contract.words import Phase


@dataclass(frozen=True, slots=True)
class Excess:
    """What windows show of a span.

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


FLOOR = float(np.log(1.05))
"""The smallest slowdown recorded, chosen: below, nobody drains a node for it."""
TENTH = float(np.log(1.10))
"""Less is drift of a machine, not a change (what GREYHOUND verifies; ATC'25)."""
TENTH_MORE = float(np.expm1(TENTH))
"""The same as a share."""
RECORDED, WAKES = 0.01, 0.02
"""Share of a step or of a run that trouble costs, from which it is recorded, and from which it
wakes somebody (docs/method/peers.md, two thresholds)."""
WAKES_BY_BOUND = 0.03
"""The same of what costs so much at most: by bounds, and of what all ranks of a node share."""
TOLD = 0.005
"""Share of a step from which what costs it is reported at all, chosen: half of what is recorded."""
TRANSIENT_FLOOR = TENTH
"""The smallest one that came and went; a burst of another process looks the same."""
NATURAL_SPREAD = float(np.log(1.15))
"""Identical parts differ by 8 % on average and 22 % at most (SC22, arXiv 2208.11035 v3): without a
healthy baseline less than this is the part itself."""
PARTS_ON_AVERAGE = float(np.log(1.08))
"""That average."""
PARTS_AT_MOST = float(np.log(1.22))
"""That most: a single part that was slow from the first step seen is named beyond it only."""
STEPS_AT_LEAST = 2 * BLOCK_STEPS_AT_LEAST
"""As GREYHOUND's verification (ATC'25): change points at least 10 iterations apart."""
TRANSIENT_STEPS = 2 * STEPS_AT_LEAST
TRANSIENT_SHARE = 0.15
"""Of all steps, of what came and went, chosen: less of a run is no reason to wake somebody for a
node that is well, nor to report a change of all ranks."""
STEPS_ABOVE = 0.3
"""Share of single steps that must lie above the middle between the levels: a CPU quota stops two in
five, a few scheduler stalls in a short span are fewer."""
OWN_PHASES: tuple[str, ...] = tuple(phase for phase in Phase if phase is not Phase.GRAD_SYNC)
"""Phases without waiting; of grad_sync only what is outside the collectives is own time."""


def slow_finding(
    grid: Grid,
    groups: Blocks,
    shift: Shift,
    peers: NDArray[np.int64],
    detector: str,
    edges: tuple[int, int | None],
    ratio: FloatGrid,
) -> Found:
    """The Finding of a slow rank: exact onset, slowdown with interval, phases of the excess.

    Args:
        peers: Columns of the ranks it was compared with.
        detector: Name of the detector, for `Finding.detector`.
        edges: First window and the one after the last, None = to the end.
        ratio: (n,) log own time over the peers' in the windows of the blocks.
    """
    usable = np.concatenate(groups.members)[np.isfinite(ratio)]
    throughout = shift.first == 0 and shift.last == len(groups)
    goes = excess(grid, groups, shift, ratio, edges)
    first, last = goes.first, goes.last
    # Over all steps of a span that comes and goes it is less, and as sure.
    less = goes.effect / shift.effect if 0.0 < goes.effect < shift.effect else 1.0
    shift = dataclasses.replace(shift, effect=goes.effect, error=shift.error * less)
    stop = len(grid.start) if last is None else last
    inside = usable[(usable >= first) & (usable < stop)]
    outside = np.setdiff1d(usable, inside)
    before = inside if throughout else outside
    low, slowdown, high = interval_95(shift.effect, shift.error)
    own = grid.time["own"]
    facts: dict[str, Any] = {
        "own_seconds": mean_of(own[inside, shift.column]),
        "own_seconds_before": None if throughout else mean_of(own[before, shift.column]),
        "peer_seconds": mean_of(own[np.ix_(inside, peers)]),
        "peers": [grid.ranks[column].rank for column in peers],
        "steps": int(np.sum(grid.to_step[inside] - grid.from_step[inside])),
        "from_start": throughout,
        "critical_score": shift.critical,
        "shape": str(goes.shape),
        "period_steps": goes.every,
    }
    info = grid.ranks[shift.column]
    return Found(
        detector=detector,
        kind="slow",
        rank=info.rank,
        first=first,
        last=last,
        slowdown=slowdown,
        interval=(low, high),
        score=shift.score,
        share=phase_shares(grid, shift.column, peers, inside, before, throughout),
        text=_text(info, int(grid.from_step[first]), slowdown, (low, high), facts, goes),
        details=facts,
    )


def span_edges(groups: Blocks, shift: Shift, ratio: FloatGrid) -> tuple[int, int | None]:
    """First window and the one after the last (None = to the end), from blocks to windows.

    Args:
        groups: The blocks, n windows in all.
        shift: The span of blocks.
        ratio: (n,) log ratio of each of those windows.
    """
    first, stop = groups.first(shift.first), groups.stop(shift.last)
    open_end = shift.last == len(groups)
    if shift.first == 0 and open_end:
        return 0, None
    usable = np.concatenate(groups.members)
    begin, end = refine(ratio, shift.inside - shift.effect, shift.inside)
    fine_first = int(usable[min(begin, len(usable) - 1)])
    fine_stop = int(usable[max(end - 1, 0)]) + 1
    overlap = min(stop, fine_stop) - max(first, fine_first)
    if overlap >= (stop - first) / 2:
        first = fine_first if shift.first > 0 else 0
        stop = fine_stop
    elif shift.first == 0:
        first = 0
    tail = np.sum(usable >= stop)
    width = max(len(members) for members in groups.members)
    return first, None if open_end or tail < width / 2 else stop


def phase_shares(
    grid: Grid,
    column: int,
    peers: NDArray[np.int64],
    inside: NDArray[np.int64],
    before: NDArray[np.int64],
    throughout: bool,
) -> Mapping[str, float]:
    """Phase -> share of the excess own time; what the peers gained too is no excess.

    A phase may hold waiting as well, all of it where a program names no phases: what peers wait for
    the rank is no gain of theirs, so they cannot have gained more in a phase than in own time. What
    the phases show beyond the excess the rank waits itself, for somebody else who is slow: in those
    in which its peers gained as much. Where they show less than half of it, the rest is in `other`.
    """

    def gains(cells: FloatGrid) -> tuple[float, float]:
        """The rank's and its peers', seconds per step."""
        mine, theirs = mean_of(cells[inside, column]), mean_of(cells[np.ix_(inside, peers)])
        if throughout:
            return mine, theirs
        return mine - mean_of(cells[before, column]), theirs - mean_of(cells[np.ix_(before, peers)])

    own, common = gains(grid.time["own"])
    excess: dict[str, float] = {}
    waited: dict[str, float] = {}
    parts = {phase: grid.time[phase] for phase in OWN_PHASES}
    copies = grid.time[Phase.GRAD_SYNC] - grid.time["collective"]
    if mean_of(copies[inside, column]) >= 0 and mean_of(copies[before, column]) >= 0:
        # Own time of the phase: gradients on their way to the collective. Below zero, collectives
        # lie in other phases too, and nobody knows how much of each is own.
        parts[Phase.GRAD_SYNC] = copies
    for phase, cells in parts.items():
        mine, theirs = gains(cells)
        gain = mine - (theirs if np.isnan(common) else min(theirs, max(common, 0.0)))
        if gain > 0:
            excess[phase], waited[phase] = gain, gain - max(mine - max(theirs, 0.0), 0.0)
    hidden = own - common - sum(excess.values())
    if hidden < 0 < own - common and (alike := sum(waited.values())) > 0:
        share = min(-hidden / alike, 1.0)
        excess = {phase: gain - share * waited[phase] for phase, gain in excess.items()}
    if 2 * hidden > own - common:  # the larger part, as by it a cause is reported
        excess[Phase.OTHER] = excess.get(Phase.OTHER, 0.0) + hidden
    total = sum(excess.values())
    return {phase: gain / total for phase, gain in excess.items()}


def _text(
    info: RankInfo, step: int, slowdown: float, interval: tuple[float, float],
    facts: Mapping[str, Any], goes: Excess,
) -> str:  # fmt: skip
    low, high = interval
    own, peer = milliseconds(facts["own_seconds"]), milliseconds(facts["peer_seconds"])
    text = f"rank {info.rank} took {own} of own time per step, its peers {peer}"
    turns = words(goes.shape, goes.share, goes.every)
    if facts["from_start"]:
        return f"{text}: {slowdown:.2f}x ({low:.2f} to {high:.2f}) in all steps seen{turns}"
    before = milliseconds(facts["own_seconds_before"])
    return (
        f"{text}, itself {before} before: {slowdown:.2f}x ({low:.2f} to {high:.2f})"
        f" from step {step}{turns}"
    )
