"""Slow workers of every shape in synthetic op traces: how many are missed, on seeds of their own.

Each figure is out of the number in its name. All workers are compared by their operations alone.
A span counts as told if at least two thirds of what is named and what is true are the same steps.
OP_SHAPES_RUNS and OP_SHAPES_SEED in the environment change how many, and from which seed.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lockstep.analyzer.operations.outliers import Suspect, judge, trace_cells
from lockstep.analyzer.shapes.operations import Floats, Trace
from lockstep.analyzer.stats.temporal_shape import Shape
from lockstep.evaluation.synth import traces as synth
from tests.analyzer.edited import slowed

RUNS = int(os.environ.get("OP_SHAPES_RUNS", "40"))
SEED = int(os.environ.get("OP_SHAPES_SEED", "770000"))
STEPS = 60
SLOW = 1.1
SAME_STEPS = 2 / 3
KINDS = ("transient", "periodic", "ramp", "pair", "two_replicas")
GOALS = {f"{kind}_missed_of_{RUNS}": 0.1 * RUNS for kind in KINDS} | {
    f"{kind}_others_named_of_{RUNS}": 0.05 * RUNS for kind in KINDS
}
Place = tuple[int, int]


def main() -> dict[str, float]:
    figures: dict[str, float] = {}
    for kind, case in CASES.items():
        told = [case(np.random.default_rng(SEED + number), SEED + number) for number in range(RUNS)]
        missed, others, wrong = (float(sum(each)) for each in zip(*told, strict=True))
        figures[f"{kind}_missed_of_{RUNS}"] = missed
        figures[f"{kind}_others_named_of_{RUNS}"] = others
        figures[f"{kind}_shape_or_steps_wrong_of_{RUNS}"] = wrong
    return figures


Told = tuple[bool, bool, bool]
"""Whether a slow worker is missed, another one named, and its shape or its steps are wrong."""


def _transient(dice: np.random.Generator, seed: int) -> Told:
    length = int(dice.integers(12, 25))
    first = int(dice.integers(10, STEPS - length - 10))
    when = np.isin(np.arange(STEPS), np.arange(first, first + length))
    return _one(dice, seed, np.where(when, SLOW, 1.0), Shape.TRANSIENT, when)


def _periodic(dice: np.random.Generator, seed: int) -> Told:
    period = int(dice.choice([4, 6, 10]))
    when = (np.arange(STEPS) + int(dice.integers(period))) % period < period // 2
    return _one(dice, seed, np.where(when, SLOW, 1.0), Shape.PERIODIC, None)


def _ramp(dice: np.random.Generator, seed: int) -> Told:
    first = int(dice.integers(10, 30))
    grown = np.clip((np.arange(STEPS) - first) / (STEPS - first), 0.0, 1.0)
    return _one(dice, seed, 1 + 2 * (SLOW - 1) * grown, Shape.RAMP, None)


def _two_replicas(dice: np.random.Generator, seed: int) -> Told:
    """From a third of the steps on; of two, a worker's own past tells which one changed."""
    when = np.arange(STEPS) >= STEPS // 3
    return _one(dice, seed, np.where(when, SLOW, 1.0), Shape.CONSTANT, when, dp=2)


def _pair(dice: np.random.Generator, seed: int) -> Told:
    scene = _scene(dice, seed)
    workers = dice.choice(scene.dp * scene.pp, 2, replace=False)
    places = {(int(worker) % scene.dp, int(worker) // scene.dp) for worker in workers}
    factors = (SLOW, SLOW + float(dice.uniform(0, 0.2)))
    slow = tuple(synth.Slow(*place, by) for place, by in zip(places, factors, strict=True))
    named = {(one.dp, one.stage) for one in _suspects(synth.trace(replace(scene, slow=slow)))}
    return bool(places - named), bool(named - places), False


def _one(
    dice: np.random.Generator, seed: int, factors: Floats, shape: Shape,
    when: np.ndarray | None, dp: int | None = None,
) -> Told:  # fmt: skip
    scene = _scene(dice, seed, dp)
    place = int(dice.integers(scene.dp)), int(dice.integers(scene.pp))
    found = _suspects(slowed(synth.trace(scene), *place, factors))
    mine = [one for one in found if (one.dp, one.stage) == place]
    right = bool(mine) and mine[0].shape is shape and _same(mine[0], when)
    return not mine, len(found) > len(mine), bool(mine) and not right


def _same(one: Suspect, when: np.ndarray | None) -> bool:
    if when is None:
        return True
    told = np.zeros(STEPS, dtype=bool)
    told[one.first : one.last] = True
    return bool((told & when).sum() >= SAME_STEPS * (told | when).sum())


def _scene(dice: np.random.Generator, seed: int, dp: int | None = None) -> synth.Scene:
    return synth.Scene(
        dp=int(dice.choice([4, 8, 16])) if dp is None else dp,
        pp=int(dice.choice([1, 2, 4])),
        micro_batches=8,
        steps=STEPS,
        noise=float(dice.uniform(0.003, 0.02)),
        seed=seed,
    )


def _suspects(trace: Trace) -> Sequence[Suspect]:
    found = trace_cells(trace)
    return judge(found).suspects if found else ()


CASES: dict[str, Callable[[np.random.Generator, int], Told]] = {
    "transient": _transient, "periodic": _periodic, "ramp": _ramp, "pair": _pair,
    "two_replicas": _two_replicas,
}  # fmt: skip
