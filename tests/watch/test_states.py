"""With any one input taken away watch says nothing more certain, nothing more innocent, no green.

`python -m tests.benchmarks watch_states` does it a thousand times.
"""

import numpy as np
import pytest

from lockstep.dashboard.shapes import Severity
from tests.watch.states import KINDS, judged, removals, scene, worse

MOST = 5
"""Inputs that are taken from each state."""


@pytest.mark.sweep(sample=3)
@pytest.mark.parametrize("seed", range(8))
def test_no_input_that_goes_away_makes_anybody_surer_or_more_innocent(seed):
    dice = np.random.default_rng(seed)
    kind, base = scene(dice)
    whole, every = judged(base, None), list(removals(base))

    for place in dice.choice(len(every), MOST, replace=False):
        name, remove = every[place]
        assert [] == worse(whole, judged(base, remove)), f"{kind} without {name}"


def test_a_healthy_state_is_green_so_that_there_is_something_to_lose():
    _, base = scene(np.random.default_rng(0), "healthy")
    found = judged(base, None)

    assert ("healthy", Severity.OK) == (found.status, found.colour)


def test_every_kind_of_state_is_drawn():
    kinds = {str(np.random.default_rng(seed).choice(tuple(KINDS))) for seed in range(60)}

    assert set(KINDS) == kinds
