"""Who is slow by one way of comparing workers."""

from dataclasses import dataclass

import numpy as np

from analyzer.operations import Flags, Floats
from analyzer.slowness.changepoint import MEDIAN_EFFICIENCY, refine
from analyzer.slowness.temporal_shape import Shape, onset, rises, smooth
from analyzer.trace_outliers.limits import CHANCE, RECORD, highest_healthy
from analyzer.trace_outliers.periodicity import Beat, find_beats
from analyzer.trace_outliers.residuals import Series
from analyzer.trace_outliers.robust_stats import trimmed
from analyzer.trace_outliers.self_change import changed_itself
from analyzer.trace_outliers.spans import Spans, search

NATURAL_SPREAD = float(np.log(1.15))
"""Of two replicas nobody knows which is normal; identical parts differ by 8 % on average and 22 %
at most (SC22, arXiv 2208.11035 v3), so that less than this, and no change, accuses nobody."""
DESCRIBED = 4.0
"""Standard errors from which a span tells when somebody was slow who surely was."""
FEWEST_SLOW = 3
"""Slow steps in a row; one stall of a scheduler or a collector of garbage is no slow worker."""


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """A worker whose own time is longer than it should be.

    Attributes:
        dp: Its replica.
        stage: Its stage.
        first: Place of the first slow step.
        last: The place after the last; None = to the end.
        excess: Log of its own time over what it should be, while it is slow.
        error: Standard error of `excess`.
        margin: The excess over what chance alone may do; above 1 it is a finding.
        basis: `peers`, `past` (too few peers: its own past decided) or `sign` (of two, the slower).
        cancelled: Whether it was compared with the same micro-batches on other stages.
        shape: How it goes in time.
        by_step: (S,) log excess of each step, 0 outside its span.
    """

    dp: int
    stage: int
    first: int
    last: int | None
    excess: float
    error: float
    margin: float
    basis: str
    cancelled: bool
    shape: Shape
    by_step: Floats


@dataclass(frozen=True, slots=True)
class _Row:
    """A worker in one comparison."""

    way: Series
    dp: int
    stage: int
    level: float
    least: float
    error: float
    spans: Spans
    place: int

    @property
    def values(self) -> Floats:
        series: Floats = self.way.peers[self.stage, self.dp]
        return series

    @property
    def replicas(self) -> int:
        return int(self.way.peers.shape[1])

    def suspect(
        self, first: int, last: int, by_step: Floats, error: float, margin: float, basis: str,
        shape: Shape,
    ) -> Suspect:  # fmt: skip
        inside = by_step[first:last]
        return Suspect(
            dp=self.dp,
            stage=self.stage,
            first=first,
            last=None if last == len(by_step) else last,
            excess=float(np.median(inside[inside > 0])) if (inside > 0).any() else 0.0,
            error=error,
            margin=margin,
            basis=basis,
            cancelled=self.way.cancelled,
            shape=shape,
            by_step=by_step,
        )


def find_suspects(way: Series, slow: Flags, count: int) -> dict[tuple[int, int], Suspect]:
    """(stage, dp) -> who is slow in this comparison."""
    replicas, steps = way.peers.shape[1:]
    flat = way.peers.reshape(-1, steps)
    spans = search(flat, CHANCE / count)
    turns = find_beats(flat, spans.noise)
    level = trimmed(flat)
    limit, error = highest_healthy(level, spans, slow, steps, count)
    least = limit if replicas > 2 else np.maximum(limit, NATURAL_SPREAD)
    some = (level >= least) | (spans.score >= spans.critical)
    some[list(turns)] = True
    found = {}
    for place in np.flatnonzero(some & np.isfinite(level)).tolist():
        stage, dp = divmod(place, replicas)
        row = _Row(way, dp, stage, float(level[place]), float(least[place]), float(error[place]),
                   spans, place)  # fmt: skip
        one = (
            _periodic(row, turns.get(place))
            or _ramp(row)
            or _described(row)
            or _throughout(row)
            or _span(row, spans.critical)
        )
        if one is not None:
            found[stage, dp] = one
    return found


def _periodic(row: _Row, beat: Beat | None) -> Suspect | None:
    """Slow on and off; of two replicas, the one whose own past shows it."""
    if beat is None or beat.high < (beat.high - beat.low) / 2:
        return None
    excess = beat.high - beat.low
    if excess < RECORD or not changed_itself(row.way, row.stage, row.dp, beat.on, excess):
        return None
    when = np.flatnonzero(beat.on)
    first, last = int(when[0]), int(when[-1]) + 1
    rises_at = when[np.diff(when, prepend=-2) > 1]
    again = rises_at[-1] + np.diff(rises_at).mean()
    return row.suspect(
        first=first,
        # It goes on where the next turn is not overdue.
        last=last if again < len(beat.on) else len(beat.on),
        by_step=np.where(beat.on, excess, 0.0),
        error=float(beat.noise * np.sqrt(1 / beat.on.sum() + 1 / (~beat.on).sum())),
        margin=excess / (8 * beat.noise),
        basis="peers" if row.replicas > 2 else "past",
        shape=Shape.PERIODIC,
    )


def _ramp(row: _Row) -> Suspect | None:
    """Ever slower beside its peers; of two, nobody knows who is the ruler."""
    if row.replicas <= 2 or not row.level >= row.least:
        return None
    values = row.values
    begin = onset(values, row.level / 8)
    if not rises(values[begin:]):
        return None
    steps = np.arange(len(values))
    return row.suspect(
        first=begin,
        last=len(values),
        by_step=np.where(steps >= begin, np.maximum(smooth(values), 0.0), 0.0),
        error=row.error,
        margin=row.level / row.least,
        basis="peers",
        shape=Shape.RAMP,
    )


def _described(row: _Row) -> Suspect | None:
    """Slow beyond doubt, and a span holds most of it: that it is slow needs no proof again."""
    spans, place = row.spans, row.place
    if row.replicas <= 2 or not row.level >= row.least:
        return None
    rise = spans.inside[place] - spans.outside[place]
    if rise < max(RECORD, row.level / 2, spans.inside[place] / 2):
        return None
    return _span(row, DESCRIBED)


def _throughout(row: _Row) -> Suspect | None:
    """Slow in all steps."""
    if row.replicas == 1 or not row.level >= row.least:
        return None
    steps = len(row.values)
    return row.suspect(
        first=0,
        last=steps,
        by_step=np.full(steps, row.level),
        error=row.error,
        margin=row.level / row.least,
        basis="peers" if row.replicas > 2 else "sign",
        shape=Shape.CONSTANT,
    )


def _span(row: _Row, critical: float) -> Suspect | None:
    """Slow for a while, or from a step on, where the span's score is critical."""
    spans, place, values = row.spans, row.place, row.values
    inside, outside = float(spans.inside[place]), float(spans.outside[place])
    excess = inside - outside
    if not spans.score[place] >= critical or excess < RECORD:
        return None
    # Of two replicas, both hold the same difference; a rank that lost an advantage is not slow.
    if row.replicas > 2 and inside < excess / 2:
        return None
    begin, end = refine(values, outside, inside)
    if min(end, spans.last[place]) - max(begin, spans.first[place]) < 1:
        begin, end = int(spans.first[place]), int(spans.last[place])
    if end - begin < FEWEST_SLOW:
        return None
    if row.replicas <= 2 and begin == 0:
        return None  # Nobody knows whether it was slow then, or its only peer is now.
    shape = Shape.CONSTANT if end == len(values) else Shape.TRANSIENT
    within = np.zeros(len(values), dtype=bool)
    within[begin:end] = True
    if not changed_itself(row.way, row.stage, row.dp, within, excess):
        return None
    size = end - begin
    rest = max(len(values) - size, 1)
    return row.suspect(
        first=begin,
        last=end,
        by_step=np.where(within, excess, 0.0),
        error=float(MEDIAN_EFFICIENCY * spans.noise[place] * np.sqrt(1 / size + 1 / rest)),
        margin=max(float(spans.score[place] / spans.critical), row.level / row.least),
        basis="peers" if row.replicas > 2 else "past",
        shape=shape,
    )
