"""A slow worker in public op traces of which the operations explain only part of the step.

One worker's computations take 1.1 to 2.0 times as long, and delays that no operation shows stand
before operations: a host that launches late, data that come late. As many cases have the delays
alone, in which nobody may be named. Half of the cases are edited in place, as a person edits a
file: the worker's own operations move, and everybody else's stay where they were, which no
dependency model explains. Of two replicas that differ from the first step on nobody knows which is
normal, so that nobody may be named either.

The traces are those of the public artefact (AR, SE, ST) that lie in `data/bytedance` of
$LOCKSTEP_SHARED or ../shared, or in $LOCKSTEP_TRACES; for one that is absent a synthetic trace of
its shape stands in, and its figure `published` is 0. TRACE_WITH_DELAYS_SEED and
TRACE_WITH_DELAYS_CASES in the environment change the first seed and how many cases of each trace
there are.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lockstep.analyzer.operations.whatif.analysis import Unexplained, analyze
from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import COMPUTE
from lockstep.analyzer.operations.whatif.simulate import timeline
from lockstep.analyzer.operations.whatif.work import split_durations
from lockstep.analyzer.read.optrace.load import load_trace, read_meta
from lockstep.analyzer.shapes.operations import Floats, Trace
from lockstep.analyzer.shapes.run import Verdict
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.evaluation.synth import traces as synth
from tests.analyzer.edited import healed
from tests.wild import SHARED

SEED = int(os.environ.get("TRACE_WITH_DELAYS_SEED", "440000"))
CASES = int(os.environ.get("TRACE_WITH_DELAYS_CASES", "40"))
FACTORS = (1.1, 1.2, 1.35, 1.5, 2.0)
DELAYS = ("launches", "loading", "pauses", "optimizer")
SHAPES = {
    "AR": synth.Scene(dp=4, pp=4, micro_batches=16, steps=44, last_stage=1.05, noise=0.005),
    "SE": synth.Scene(dp=16, pp=2, micro_batches=8, steps=30, last_stage=1.5, lengths=2.5),
    "ST": synth.Scene(dp=2, pp=4, micro_batches=8, steps=32, last_stage=1.6, noise=0.01),
}
"""What stands in for a trace that is not here: its structure, smaller."""


@dataclass(frozen=True, slots=True)
class Case:
    """A trace with delays, and who is slow in it.

    Attributes:
        trace: The operations.
        slow: (dp, stage); None = nobody.
        factor: How much longer its computations take.
    """

    trace: Trace
    slow: tuple[int, int] | None
    factor: float


def main() -> dict[str, float]:
    """Counts out of the number in each figure's name."""
    figures: dict[str, float] = {}
    for name in SHAPES:
        base = published(name)
        figures[f"{name}_published"] = float(base is not None)
        trace = base or synth.trace(replace(SHAPES[name], seed=SEED))
        if name == "AR" and base is not None:
            trace = healed(trace, seed=SEED)
        figures |= {f"{name}_{key}": value for key, value in counts(trace).items()}
    return figures


def counts(trace: Trace) -> dict[str, float]:
    """Cases of a trace that are told wrong."""
    missed = others = named = unfit = 0
    for case in cases(trace, slow=True):
        told = named_by(diagnose(case.trace).verdict)
        missed += case.slow not in told
        others += bool(told - {case.slow})
        unfit += isinstance(analyze(case.trace), Unexplained)
    for case in cases(trace, slow=False):
        named += bool(named_by(diagnose(case.trace).verdict))
    two = {}
    if trace.layout.dp == 2:
        always = cases(trace, slow=True, always=True)
        doubtful = sum(bool(named_by(diagnose(case.trace).verdict)) for case in always)
        two[f"always_slow_named_of_{CASES}"] = float(doubtful)
    return {
        f"missed_of_{CASES}": float(missed),
        f"others_named_of_{CASES}": float(others),
        f"unexplained_by_the_simulation_of_{CASES}": float(unfit),
        f"delays_alone_named_of_{CASES}": float(named),
    } | two


GOALS = {
    f"{name}_{key}": goal
    for name in SHAPES
    for key, goal in (
        (f"missed_of_{CASES}", 0.1 * CASES),
        (f"others_named_of_{CASES}", 0),
        (f"delays_alone_named_of_{CASES}", 0),
    )
} | {f"ST_always_slow_named_of_{CASES}": 0}


def cases(trace: Trace, *, slow: bool, always: bool = False) -> Iterator[Case]:
    """Every factor and kind of delay in turn, on workers and from steps that the seed draws."""
    for number in range(CASES):
        dice = np.random.default_rng([SEED, number, slow])
        place = int(dice.integers(trace.layout.dp)), int(dice.integers(trace.layout.pp))
        factor = FACTORS[number % len(FACTORS)] if slow else 1.0
        kind = DELAYS[(number // len(FACTORS)) % len(DELAYS)]
        early = trace.layout.dp > 2 and dice.random() < 0.5
        first = 0 if always or early else len(trace.steps) // 3
        factors = np.where(np.arange(len(trace.steps)) >= first, factor, 1.0)
        edit = moved if number % 2 else in_place
        edited = edit(trace, place, factors, delays(trace, kind, dice))
        yield Case(edited, place if slow else None, factor)


def delays(trace: Trace, kind: str, dice: np.random.Generator) -> Floats:
    """(K, D, S) seconds before each operation that nothing explains, 8 to 20 % of a step."""
    steps = trace.end.max(axis=(0, 1))
    budget = dice.uniform(0.08, 0.20) * steps
    shape = trace.start.shape
    late = np.zeros(shape)
    rows = np.flatnonzero(trace.of(*COMPUTE))
    if kind == "launches":  # the host launches computations late, now and then, on every rank
        chosen = dice.random((len(rows), *shape[1:])) < 0.2
        weights = dice.exponential(1.0, chosen.shape) * chosen
        longest = np.stack(
            [weights[trace.stage[rows] == p].sum(axis=0) for p in range(trace.layout.pp)]
        ).max(axis=(0, 1))
        late[rows] = weights * budget / np.maximum(longest, 1e-9)
    elif kind == "loading":  # the first computations of a step wait for data
        for stage in range(trace.layout.pp):
            late[rows[trace.stage[rows] == stage][0]] = budget * dice.uniform(0.8, 1.0, shape[1:])
    elif kind == "pauses":  # one worker a step stands still, another in each
        for step in range(shape[2]):
            late[dice.choice(rows), dice.integers(shape[1]), step] = budget[step]
    else:
        late[trace.of("optimizer")] = budget
    return late


def moved(trace: Trace, place: tuple[int, int], factors: Floats, late: Floats) -> Trace:
    """The run as it would have gone: everybody waits for whom it has to."""
    graph = build(trace)
    own = split_durations(trace, graph).own.copy()
    rows = np.flatnonzero(trace.of(*COMPUTE) & (trace.stage == place[1]))
    own[rows, place[0]] *= factors
    times = timeline(graph, own, late)
    # A transfer begins when it is launched, and its group's delays are in its duration.
    return replace(trace, start=times.start, duration=np.maximum(times.end - times.start, 0.0))


def in_place(trace: Trace, place: tuple[int, int], factors: Floats, late: Floats) -> Trace:
    """Each worker's operations move by what its own were longer and later before, nobody else's."""
    duration = trace.duration.copy()
    rows = np.flatnonzero(trace.of(*COMPUTE) & (trace.stage == place[1]))
    duration[rows, place[0]] *= factors
    start = trace.start.copy()
    more = duration - trace.duration
    for stage in range(trace.layout.pp):
        mine = np.flatnonzero(trace.stage == stage)
        order = np.argsort(trace.start[mine], axis=0, kind="stable")
        later = np.take_along_axis(late[mine], order, axis=0)
        longer = np.take_along_axis(more[mine], order, axis=0)
        shift = np.cumsum(later, axis=0) + np.cumsum(longer, axis=0) - longer
        back = np.empty_like(shift)
        np.put_along_axis(back, order, shift, axis=0)
        start[mine] += back
    return replace(trace, start=start, duration=duration)


def named_by(verdict: Verdict) -> set[tuple[int | None, int | None]]:
    """(dp, stage) of everybody who is named."""
    return {(one.dp, one.pp) for one in verdict.culprits}


def published(name: str) -> Trace | None:
    """A public trace; None where it is not here."""
    folder = Path(os.environ.get("LOCKSTEP_TRACES") or SHARED / "data/bytedance")
    path = folder / f"trace-{name}.parquet"
    if not path.is_file():
        return None
    return load_trace(path, read_meta(folder / f"meta-{name}.yaml"))
