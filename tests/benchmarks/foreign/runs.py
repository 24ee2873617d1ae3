"""Which runs there are, and one of them from its kind and seed to its archive with its truth."""

import json
from pathlib import Path

import numpy as np

from lockstep.collector.contract.archive import TRUTH_FILE
from tests.benchmarks.foreign import archive, truth
from tests.benchmarks.foreign.drawing import draw
from tests.benchmarks.foreign.kinds import BENIGN, INJECTED, LASTING_FAULTS
from tests.benchmarks.foreign.walk import simulate
from tests.benchmarks.simulated.arrays import Generator

PAIR_EVERY = 6
"""Of injected runs, one in so many has two faults."""
SEEDS = 1000
"""Seeds of runs that a seed of many has for itself."""


def name_of(kind: str, seed: int) -> str:
    """Of a run, and of the folder of its archive."""
    return f"{kind}-{seed}"


def make(folder: Path, kind: str, seed: int) -> Path:
    """Writes the archive of a run into a folder of its own under `folder`, which it returns.

    `kind` is one of `kinds`, or two that are injected, as `a+b`.
    """
    scenario = draw(kind, seed)
    quiet = timeline = simulate(scenario, [])
    if scenario.faults:
        timeline = simulate(scenario, scenario.faults)
    alone = dict.fromkeys(scenario.faults, timeline)
    if len(alone) > 1:
        alone = {fault: simulate(scenario, [fault]) for fault in scenario.faults}
    target = folder / name_of(kind, seed)
    scene = archive.write(scenario, timeline, target)
    told = truth.document(scene, quiet, alone)
    (target / TRUTH_FILE).write_text(json.dumps(told, indent=1))
    return target


def wanted(seed: int, runs: int) -> list[tuple[str, int]]:
    """Kinds and seeds of so many injected runs, and of as many benign ones."""
    rng = np.random.default_rng(seed)
    injected = _turns(rng, INJECTED, runs)
    for number in range(PAIR_EVERY - 1, runs, PAIR_EVERY):
        first, second = rng.choice(LASTING_FAULTS, 2, replace=False)
        injected[number] = f"{first}+{second}"
    kinds = injected + _turns(rng, BENIGN, runs)
    return [(kind, seed * SEEDS + number) for number, kind in enumerate(kinds)]


def _turns(rng: Generator, kinds: tuple[str, ...], count: int) -> list[str]:
    """Each as often as the others, in an order that is drawn for each turn."""
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += [str(kind) for kind in rng.permutation(kinds)]
    return drawn[:count]
