"""1,000 states of what one cycle of `lockstep watch` reads, each with one input taken away.

`python -m tests.benchmarks.watch_states COUNT SEED` does fewer, and others.
"""

import logging
import sys
from collections import Counter

import numpy as np

from lockstep.dashboard.shapes import Severity
from tests.watch.states import judged, removals, scene, worse

STATES, OF_ONE = 1000, 8
GOALS = {"states that say more with less": 0.0, "healthy states that are not green": 0.05}


def main(count: int = STATES, seed: int = 0) -> dict[str, float]:
    logging.disable(logging.WARNING)
    dice = np.random.default_rng(seed)
    bad: list[str] = []
    kinds: Counter[str] = Counter()
    healthy, grey, done = 0, 0, 0
    while done < count:
        kind, base = scene(dice)
        whole, every = judged(base, None), list(removals(base))
        healthy += kind == "healthy"
        grey += kind == "healthy" and whole.colour is not Severity.OK
        for place in dice.choice(len(every), min(OF_ONE, count - done), replace=False):
            name, remove = every[place]
            words = worse(whole, judged(base, remove))
            bad += [f"{kind} without {name}: {'; '.join(words)}"] if words else []
            kinds[kind] += 1
            done += 1
    first = f"{done} states: {dict(kinds)}; {healthy} healthy worlds, {grey} of them not green"
    sys.stdout.write("\n".join([first, *bad, ""]))
    return {
        "states that say more with less": float(len(bad)),
        "healthy states that are not green": grey / max(1, healthy),
    }


if __name__ == "__main__":
    found = main(*map(int, sys.argv[1:3]))
    sys.exit(any(found[name] > goal for name, goal in GOALS.items()))
