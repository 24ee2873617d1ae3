"""What costs time by a run's own design; no worker is blamed for it.

One function a kind, all in `KINDS`: heavier stages, micro-batches of unequal length, experts of
unequal load, periodic pauses; and GPUs of several models, which windows show.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.operations.outliers import LENGTHS, Cells, uneven, work
from lockstep.analyzer.operations.whatif.graph import COMPUTE, GC, Graph
from lockstep.analyzer.operations.whatif.simulate import simulate
from lockstep.analyzer.operations.whatif.work import split_durations
from lockstep.analyzer.shapes.operations import Flags, Floats, Ints, Trace
from lockstep.analyzer.shapes.run import Grid
from lockstep.analyzer.stats.changepoint import MEDIAN_EFFICIENCY, SAME_ABOVE, column_medians
from lockstep.analyzer.stats.peer_groups import MAJORITY, columns_by, model_name
from lockstep.analyzer.stats.robust_stats import NEARLY_ALL, mean, median, median_of, spread
from lockstep.analyzer.stats.robust_stats import spread as spread_of
from lockstep.analyzer.stats.significance import TOLD, WAKES_BY_BOUND
from lockstep.analyzer.stats.temporal_shape import CUT, LEAST_TURNS

LONGER = WAKES_BY_BOUND
"""Share by which somebody computes longer than the others, from which it is worth a word: what
would wake somebody, were it a fault. Trace AR's last stage, with the loss, is 3 to 7 % longer."""
ALIKE = NEARLY_ALL
"""Share of replicas or steps that must show the same, where all are said to; and the least
correlation of forward and backward time of a micro-batch (OSDI'25, section 5.3)."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Something that costs time by the run's own design; no worker is to blame.

    Attributes:
        kind: A word of docs/reference/verdict.md.
        share: Share of the step time that goes without it, simulated with nobody slow; near 0 where
            slack hides it. None = could not be simulated.
        text: The facts in words.
    """

    kind: str
    share: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """A trace taken apart.

    Attributes:
        trace: The operations.
        graph: What waits for what; None where the model does not explain the trace.
        own: (K, D, S) seconds, of `split_durations`, slow workers mended; durations without a
            graph.
        cells: Its computations.
        slow: (P, D) workers known to be slow; they say nothing about structure.
    """

    trace: Trace
    graph: Graph | None
    own: Floats
    cells: Cells
    slow: Flags

    def share_without(self, factor: Floats) -> float | None:
        """Share of the step time that goes if every computation takes `factor` times as long.

        Args:
            factor: Broadcasts to (K, D, S); other operations stay as they are.
        """
        compute = self.trace.of(*COMPUTE)[:, None, None]
        return self.share_of(np.where(compute, self.own * factor, self.own))

    def share_of(self, changed: Floats) -> float | None:
        """Share of the step time that goes with other own times."""
        if self.graph is None:
            return None
        before, after = simulate(self.graph, self.own), simulate(self.graph, changed)
        return max(1 - float(after.mean() / before.mean()), 0.0)


REPLICAS = 2
"""With one replica, a heavy stage and a slow worker are the same."""


def stage_imbalance(facts: Facts) -> Sequence[Structure]:
    """Stages that are heavier by design, on every replica alike; none with one stage or replica."""
    ratio = stage_excess(facts)
    if ratio is None:
        return ()
    heavy = np.flatnonzero(ratio >= LONGER)
    if not len(heavy):
        return ()
    usual = facts.cells.stage_steps.mean(axis=1)
    level = usual.mean() / usual
    factor = level[facts.trace.stage][:, None, None]
    heaviest = int(heavy[np.argmax(ratio[heavy])])
    rest = [f"stage {stage} by {ratio[stage]:.0%}" for stage in heavy if stage != heaviest]
    also = f", {' and '.join(rest)}" if rest else ""
    text = (
        f"stage {heaviest} computes {ratio[heaviest]:.0%} longer than the other stages{also},"
        " in every replica and from the first step: a heavier part of the model"
    )
    return (Structure("stage-imbalance", facts.share_without(factor), text),)


def stage_excess(facts: Facts) -> Floats | None:
    """(P,) share by which each stage computes longer than the middle of the others.

    0 where it does not in most replicas and steps; None with one stage or one replica.
    """
    usual = np.where(facts.slow, np.nan, facts.cells.usual)
    stages, replicas = usual.shape
    if stages < 2 or replicas < REPLICAS or np.isnan(usual).all(axis=1).any():
        return None
    steps = facts.cells.stage_steps
    excess = np.zeros(stages)
    for stage in range(stages):
        others = np.arange(stages) != stage
        middle = float(np.nanmedian(usual[others]))
        if middle <= 0:
            return None
        by_replica = usual[stage] / middle - 1
        longer = steps[stage] > np.median(steps[others], axis=0)
        known = by_replica[np.isfinite(by_replica)]
        if (known > LONGER / 2).mean() >= ALIKE and longer.mean() >= ALIKE:
            excess[stage] = float(np.median(known))
    return excess


SHARED = 2.0
"""Times the spread by chance, chosen, from which stages agree on which micro-batches are long."""


def length_imbalance(facts: Facts) -> Sequence[Structure]:
    """Micro-batches of unequal work, on all stages, and forward and backward alike."""
    spread = uneven(facts.cells, facts.slow)
    long = work(facts.cells, facts.slow)
    if spread < max(LENGTHS, SHARED * _by_chance(facts, long)):
        return ()
    away = long - mean(long, 1)[:, None]
    alike = correlation(away[0], away[1])
    if alike < ALIKE:
        return ()
    both = mean(away, 0)
    low, high = np.exp(np.nanquantile(both, [CUT, 1 - CUT]))
    text = (
        f"micro-batches of a step differ in work by up to {high / low:.1f}x on all stages alike"
        f" (forward and backward agree, correlation {alike:.2f}): sequences of unequal length"
    )
    return (Structure("sequence-length-imbalance", _share_of_equal_lengths(facts, long), text),)


def _by_chance(facts: Facts, long: Floats) -> float:
    """The spread that the middle of the stages has where each stage varies for itself."""
    ratio = facts.cells.ratio
    if ratio.shape[2] < MAJORITY:
        return 0.0
    left = np.where(facts.slow[:, :, None], np.nan, ratio - long[:, :, None]).mean(axis=0)
    each = spread_of(left, 0)
    if not np.isfinite(each).any():
        return 0.0
    return MEDIAN_EFFICIENCY * float(np.nanmedian(each)) / float(np.sqrt(ratio.shape[2]))


def correlation(first: Floats, second: Floats) -> float:
    """Pearson's, over what both have; 0 where nothing varies."""
    known = np.isfinite(first) & np.isfinite(second)
    if known.sum() < MAJORITY:
        return 0.0
    a, b = first[known] - first[known].mean(), second[known] - second[known].mean()
    power = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / power if power > 0 else 0.0


def _share_of_equal_lengths(facts: Facts, long: Floats) -> float | None:
    """With every micro-batch of a step as long as their mean, the step's work stays the same."""
    trace = facts.trace
    if not facts.cells.known:
        return None
    times = np.exp(np.nan_to_num(long))
    level = times.mean(axis=(1, 2), keepdims=True) / times
    numbers = np.unique(trace.micro_batch[trace.of(*COMPUTE)])
    factor = np.ones_like(facts.own)
    for kind, name in enumerate(COMPUTE):
        rows = np.flatnonzero(trace.of(name))
        factor[rows] = level[kind, np.searchsorted(numbers, trace.micro_batch[rows])]
    return facts.share_without(factor)


def expert_imbalance(facts: Facts) -> Sequence[Structure]:
    """Micro-batches that are long on one stage only: what is left without the shared work.

    Tokens that crowd on one expert lengthen a stage's forward and its backward of that micro-batch.
    Two stages are too few to tell: what one has more, the other seems to have less.
    """
    ratio = facts.cells.ratio
    if not facts.cells.cancels or ratio.shape[2] < MAJORITY:
        return ()
    left = ratio - work(facts.cells, facts.slow)[:, :, None]
    left = np.where(facts.slow[:, :, None], np.nan, left)
    left = left - median(left, 1, keepdims=True)
    each = spread(left, (0, 1, -1))
    wide = float(np.nanmedian(each)) if np.isfinite(each).any() else 0.0
    if wide < LENGTHS or correlation(left[0], left[1]) < ALIKE:
        return ()
    text = (
        f"the same micro-batch takes unequal time on different stages (spread {wide:.0%} beside"
        " what its length explains, forward and backward alike): experts of unequal load"
    )
    return (Structure("expert-imbalance", None, text),)


COLLECTING_LEAST = 0.002
"""Seconds of collecting in a worker's step from which it counts, chosen."""
LONG_STEP = 1.2
"""Times the middle step from which a step counts as long, chosen."""


def periodic_pauses(facts: Facts) -> Sequence[Structure]:
    """Garbage collection, and steps that are long for all at regular distances."""
    return (*_collections(facts), *_beat(facts))


def _collections(facts: Facts) -> Sequence[Structure]:
    rows = np.flatnonzero(facts.trace.of(GC))
    if not len(rows):
        return ()
    seconds = facts.own[rows]
    due = seconds >= COLLECTING_LEAST
    if not due.any():
        return ()
    changed = facts.own.copy()
    changed[rows] = 0.0
    share = facts.share_of(changed)
    of_step = float(seconds.max(axis=(0, 1)).mean() / facts.trace.end.max(axis=(0, 1)).mean())
    if (of_step if share is None else share) < TOLD:
        return ()
    workers = float(due.any(axis=2).mean())
    text = (
        f"garbage collection stops a worker for {np.median(seconds[due]):.2f} s in"
        f" {due.mean():.0%} of its steps ({workers:.0%} of the workers, each in its own step)"
    )
    return (Structure("periodic", share, f"{text}: collect on all at once"),)


def _beat(facts: Facts) -> Sequence[Structure]:
    trace = facts.trace
    wall = _wall(facts)
    if wall is None:
        return ()
    long = wall > LONG_STEP * np.median(wall)
    period = _period(trace.steps, long)
    if period is None:
        return ()
    more = float((wall[long] - np.median(wall)).sum() / wall.sum())
    text = (
        f"every {period} steps all ranks take {np.median(wall[long]) / np.median(wall):.1f}x as"
        " long, as for a checkpoint or an evaluation"
    )
    return (Structure("periodic", more, text),)


def _wall(facts: Facts) -> Floats | None:
    """(S,) seconds of the steps without what slow workers cost; None where it cannot be determined.

    What no operation shows, as a checkpoint between steps, is in the steps alone: the simulated
    cost is taken off them.
    """
    trace = facts.trace
    wall: Floats = trace.end.max(axis=(0, 1)) if trace.observed is None else trace.observed
    if not facts.slow.any():
        return wall
    if facts.graph is None:
        return None
    was = split_durations(trace, facts.graph).own
    without: Floats = wall - simulate(facts.graph, was) + simulate(facts.graph, facts.own)
    return without


def _period(steps: Ints, long: Flags) -> int | None:
    """The beat of the long steps; None where there is none."""
    when = steps[long]
    if len(when) < LEAST_TURNS:
        return None
    period = int(np.gcd.reduce(np.diff(when)))
    if period < 2:
        return None
    beat = (steps - when[0]) % period == 0
    return period if long[beat].mean() >= SAME_ABOVE else None


MIXED_MODELS = "mixed-gpu-models"


def slower_models(grid: Grid) -> tuple[Mapping[str, object], ...]:
    """The model that is slowest against the fastest of its stage, as docs/reference/verdict.md.

    `share` is what steps would be shorter by at most, were all of the fastest.
    """
    own = column_medians(grid.time["own"][~grid.masked])
    levels: dict[int, dict[str, float]] = {}
    groups = columns_by(grid, lambda info: (info.pp, model_name(info.model)))
    for (stage, model), columns in groups.items():
        level = median_of(own[columns])
        if model and level > 0:
            levels.setdefault(stage, {})[model] = level
    slower = []
    for stage, told in levels.items():
        slow, fast = max(told, key=lambda m: told[m]), min(told, key=lambda m: told[m])
        if told[slow] >= (1.0 + LONGER) * told[fast]:
            slower.append((told[slow] - told[fast], stage, slow, fast))
    if not slower:
        return ()
    more, stage, slow, fast = max(slower)
    times = levels[stage][slow] / levels[stage][fast]
    text = f"the same work takes {slow} {times:.2f}x the time of {fast}; both are in this run"
    share = more / max(median_of(grid.time["wall"][~grid.masked]), more)
    return ({"kind": MIXED_MODELS, "share": float(share), "text": text},)


KINDS: tuple[Callable[[Facts], Sequence[Structure]], ...] = (
    stage_imbalance, length_imbalance, expert_imbalance, periodic_pauses,
)  # fmt: skip


def structures(facts: Facts) -> tuple[Structure, ...]:
    """All that is found, the costliest first."""
    every = [structure for find in KINDS for structure in find(facts)]
    return tuple(sorted(every, key=lambda structure: -(structure.share or 0.0)))
