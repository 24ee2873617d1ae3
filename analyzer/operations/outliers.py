"""Which workers are slow by their operations: the search of the windows, on computations alone.

Operations are another observation of the same own time: without what the host does between them,
and with the work of every micro-batch known. The computations of a trace are laid on regular axes
(kind, micro-batch, stage, replica, step). What is left of them when stage and work are taken out
(docs/method/peers.md) goes, as windows of a step each, into the search for slow ranks
(analyzer.stragglers.model.effects), with the precision of operations.
"""

from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.whatif.graph import COMPUTE
from lockstep.analyzer.shapes.operations import Flags, Floats, Ints, Trace
from lockstep.analyzer.shapes.run import Finding, Grid, RankInfo
from lockstep.analyzer.stats.changepoint import column_medians
from lockstep.analyzer.stats.peer_groups import others_median
from lockstep.analyzer.stats.robust_stats import WITHIN, mean, mean_of, median, median_of, shows
from lockstep.analyzer.stats.temporal_shape import Shape, smooth
from lockstep.analyzer.stragglers.model.effects import effects
from lockstep.analyzer.stragglers.model.precision import OPERATIONS
from lockstep.collector.contract.robust import MAD_TO_SIGMA
from lockstep.collector.contract.words import Phase


@dataclass(frozen=True, slots=True)
class Cells:
    """How long every computation took beside what is usual for its stratum.

    Attributes:
        ratio: (2, M, P, D, S) log own time of forward and backward of a micro-batch over the
            median of the stratum (kind, chunk, stage), the mean over chunks; NaN = not there.
        usual: (P, D) seconds a step that a worker computes, its median step.
        stage_steps: (P, S) seconds that the middle replica computes in a step.
        known: Whether micro-batches have numbers, so that the same one can be found on all stages.
    """

    ratio: Floats
    usual: Floats
    stage_steps: Floats
    known: bool

    @property
    def cancels(self) -> bool:
        """Whether the work of a micro-batch cancels between stages."""
        return self.known and self.ratio.shape[2] > 1


def trace_cells(trace: Trace) -> Cells | None:
    """The computations of a trace; None where it has none that take time."""
    rows = np.flatnonzero(trace.of(*COMPUTE))
    if not len(rows) or not (trace.duration[rows] > 0).any():
        return None
    lane, known = _lanes(trace, rows)
    kind = (trace.optype[rows] == COMPUTE[1]).astype(np.int64)
    chunk = np.maximum(trace.chunk[rows], 0)
    seconds = trace.duration[rows]
    shape = (2, lane.max() + 1, chunk.max() + 1, trace.layout.pp, *seconds.shape[1:])
    logs = np.full(shape, np.nan)
    with np.errstate(divide="ignore"):
        logs[kind, lane, chunk, trace.stage[rows]] = np.where(seconds > 0, np.log(seconds), np.nan)
    base = median(logs, (1, -2, -1), keepdims=True)
    total = np.stack([seconds[trace.stage[rows] == p].sum(axis=0) for p in range(trace.layout.pp)])
    return Cells(
        ratio=mean(logs - base, 2),
        usual=np.median(total, axis=2),
        stage_steps=np.median(total, axis=1),
        known=known,
    )


def _lanes(trace: Trace, rows: Ints) -> tuple[Ints, bool]:
    """The micro-batch of each computation as a place from 0, and whether it is known."""
    numbers = trace.micro_batch[rows]
    places = np.stack([trace.optype[rows] == COMPUTE[1], trace.stage[rows], trace.chunk[rows],
                       numbers])  # fmt: skip
    if numbers.min() >= 0 and np.unique(places, axis=1).shape[1] == len(rows):
        return np.unique(numbers, return_inverse=True)[1], True
    return trace.seq[rows], False


LENGTHS = 0.04
"""Spread of the work inside a step from which its sequences count as uneven: a replica that is long
on all stages may then just have more to do. Trace AR's healthy workers show 1.5 to 2.5 %."""


def own_times(cells: Cells, slow: Flags) -> tuple[Floats, bool]:
    """(P, D, S) log own time of each worker at the same work, and whether that is by other stages.

    Where sequences are uneven, long ones are long on all stages of a replica: the same
    micro-batches there say how much work they were. With one replica there is nobody to compare the
    rest with, so that steps stay as they are.

    Args:
        cells: The computations.
        slow: (P, D) workers known to be slow; they are nobody's reference.
    """
    cancelled = cells.cancels and slow.shape[1] > 1 and uneven(cells, slow) >= LENGTHS
    ratio = cells.ratio
    if cancelled:
        ratio = ratio - others_median(ratio, 2, ~slow[:, :, None])
    return mean(ratio, (0, 1)), cancelled


def fastest_passes(cells: Cells, slow: Flags) -> list[Floats]:
    """The same of the fastest forward and of the fastest backward pass of a step; [] if uneven.

    A fault slows these too and background traffic does not reach them: healthy workers of a public
    trace differ by 0.5 % in their means and by 0.2 % in their fastest forward passes (measured).
    """
    if uneven(cells, slow) >= LENGTHS:
        return []
    fastest = np.where(np.isnan(cells.ratio), np.inf, cells.ratio).min(axis=1)
    return [np.where(np.isfinite(each), each, np.nan) for each in fastest]


def replica_levels(cells: Cells, slow: Flags) -> Floats:
    """(D,) log of how much longer a replica takes on all stages alike; 0 with one stage."""
    if not cells.cancels or slow.shape[1] < 2:
        return np.zeros(slow.shape[1])
    long = median(work(cells, slow), (0, 1))
    return median(long - median(long, 0, keepdims=True), 1)


def work(cells: Cells, slow: Flags) -> Floats:
    """(2, M, D, S) log of how much longer a micro-batch is than usual, by its healthy stages."""
    return median(np.where(slow[:, :, None], np.nan, cells.ratio), 2)


def uneven(cells: Cells, slow: Flags) -> float:
    """Robust spread of the log work of micro-batches inside a step."""
    both = median(work(cells, slow), 0)
    away = np.abs(both - median(both, 0, keepdims=True))
    away = away[np.isfinite(away)]
    return MAD_TO_SIGMA * float(np.median(away)) if away.size else 0.0


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
        by_peers: Whether replicas enough do the same work; else its own past decided.
        place_confidence: Probability that it is this worker.
        shape: How it goes in time.
        by_step: (S,) log excess of each step, 0 outside its span.
    """

    dp: int
    stage: int
    first: int
    last: int | None
    excess: float
    error: float
    by_peers: bool
    place_confidence: float
    shape: Shape
    by_step: Floats


@dataclass(frozen=True, slots=True)
class Judgement:
    """All suspects of a trace, the clearest first, and who was near.

    Attributes:
        suspects: Slow workers.
        cancelled: Whether workers were compared with the same micro-batches on other stages.
        level: (P, D) log of each worker's own time over what it should be, all steps.
        replica: (D,) log of how much longer a replica takes on all stages alike; 0 with one stage.
    """

    suspects: tuple[Suspect, ...]
    cancelled: bool
    level: Floats
    replica: Floats

    def flags(self) -> Flags:
        """(P, D) whether a worker is a suspect."""
        flagged = np.zeros(self.level.shape, dtype=bool)
        for suspect in self.suspects:
            flagged[suspect.stage, suspect.dp] = True
        return flagged


def judge(cells: Cells) -> Judgement:
    """Who is slow by the computations of a trace."""
    flags = np.zeros(cells.usual.shape, dtype=bool)
    replicas = cells.usual.shape[1]
    slow: list[Finding] = []
    for own in (own_times(cells, flags)[0], *fastest_passes(cells, flags)):
        for finding in effects(as_windows(own), OPERATIONS):
            if finding.kind == "slow" and not flags[_place(finding, replicas)]:
                flags[_place(finding, replicas)] = True
                slow.append(finding)
    # Measured by all that they compute, against references without the slow ones.
    own, cancelled = own_times(cells, flags)
    rest = own - _reference(own, flags)
    measured = [(finding, _rise(finding, rest[_place(finding, replicas)])) for finding in slow]
    # What the fastest passes show, all that a worker computes must show as well; NaN: so many are
    # slow that nobody is left to measure it by.
    sure = [
        finding
        for finding, rise in measured
        if np.isnan(rise) or shows(rise, float(np.log(finding.slowdown)))
    ]
    level = np.nan_to_num(column_medians(rest.reshape(-1, rest.shape[2]).T)).reshape(flags.shape)
    suspects = tuple(_suspect(finding, rest) for finding in sure)
    return Judgement(suspects, cancelled, level, replica_levels(cells, flags))


def _place(finding: Finding, replicas: int) -> tuple[int, int]:
    """(stage, replica) of a rank of `as_windows`."""
    assert finding.rank is not None
    stage, replica = divmod(finding.rank, replicas)
    return stage, replica


def _rise(finding: Finding, mine: Floats) -> float:
    """Log own time in its span over the rest of the steps, or over the others in all steps."""
    inside = np.zeros(len(mine), dtype=bool)
    inside[finding.first : finding.last] = True
    return mean_of(mine[inside]) - (0.0 if inside.all() else median_of(mine[~inside]))


def _suspect(finding: Finding, rest: Floats) -> Suspect:
    stage, dp = _place(finding, rest.shape[1])
    steps = rest.shape[2]
    stop = steps if finding.last is None else finding.last
    inside = np.zeros(steps, dtype=bool)
    inside[finding.first : stop] = True
    shape, excess = Shape(finding.details["shape"]), float(np.log(finding.slowdown))
    mine = rest[stage, dp]
    if shape is Shape.PERIODIC:
        on = mine > mean_of(mine[inside])
        excess = median_of(mine[inside & on]) - median_of(mine[inside & ~on])
        by_step = np.where(inside & on, excess, 0.0)
    elif shape is Shape.RAMP:
        level = float(np.nan_to_num(median_of(mine[: finding.first])))
        by_step = np.where(inside, np.maximum(smooth(np.nan_to_num(mine - level)), 0.0), 0.0)
    else:
        by_step = np.where(inside, excess, 0.0)
    low, high = finding.interval
    return Suspect(
        dp=dp,
        stage=stage,
        first=finding.first,
        last=finding.last,
        excess=excess,
        error=float(np.log(high / low)) / (2 * WITHIN),
        by_peers=rest.shape[1] > 2,
        place_confidence=float(finding.details["place_confidence"]),
        shape=shape,
        by_step=by_step,
    )


def as_windows(own: Floats) -> Grid:
    """(P, D, S) log own times as a run of one window a step; worker (p, d) is rank p * D + d.

    Each stands on a node of its own: a trace does not show where its workers are.
    """
    stages, replicas, steps = own.shape
    ranks = tuple(
        RankInfo(index, f"worker {index}", None, None, 0, index % replicas, index // replicas, 0)
        for index in range(stages * replicas)
    )
    seconds = np.exp(own.reshape(stages * replicas, steps).T)
    nothing = np.zeros_like(seconds)
    phases = {str(phase): nothing for phase in Phase} | {str(Phase.FORWARD): seconds}
    times = {"own": seconds, "wall": seconds, "collective": nothing, "gc": nothing}
    numbers, moments = np.arange(steps), np.arange(steps + 1, dtype=np.float64)
    unknown = np.full(len(ranks), np.nan)
    return Grid(
        run="", ranks=ranks, from_step=numbers, to_step=numbers + 1, start=moments[:-1],
        end=moments[1:], time=phases | times | {"cpu": np.full_like(seconds, np.nan)},
        signals={}, last={}, last_time={}, scraped_until=unknown,
        masked=np.zeros(steps, dtype=bool), coverage=1.0,
    )  # fmt: skip


def _reference(own: Floats, slow: Flags) -> Floats:
    """What the trusted workers of a stage have in common; with one replica, of the other stages."""
    axis = 0 if own.shape[1] == 1 else 1
    return others_median(own, axis, ~slow[:, :, None])
