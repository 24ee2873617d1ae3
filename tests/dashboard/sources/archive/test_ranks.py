"""Ranks of an archive: own time is shown where it is known of as many steps as a verdict needs."""

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.read.archive.steps import Steps
from lockstep.analyzer.stats.coverage import KNOWN_AT_LEAST
from lockstep.dashboard.sources.archive.ranks import PHASE_COLUMNS, table

COUNT = 100


@pytest.mark.parametrize("known", [0.6, KNOWN_AT_LEAST - 0.01, KNOWN_AT_LEAST])
def test_own_time_known_of_too_few_steps_is_not_shown(known):
    own = np.full((COUNT, 2), 0.04)
    own[round(known * COUNT) :, 1] = np.nan
    cells = {name: np.full((COUNT, 2), 0.01) for name in PHASE_COLUMNS}
    cells |= {"own_seconds": own, "wall_seconds": np.full((COUNT, 2), 0.05)}
    steps = Steps(
        np.arange(COUNT), np.zeros(COUNT, dtype=np.int64), np.arange(COUNT) * 0.05,
        np.full(COUNT, 0.05), np.arange(2), cells, {"warmup": np.zeros(COUNT, dtype=bool)},
    )  # fmt: skip
    who = pd.DataFrame(
        {"rank": [0, 1], "node": ["node-0", "node-1"], "gpu": [0, 0], "uuid": ["a", "b"],
         "dp": [0, 1], "pp": [0, 0], "tp": [0, 0]}
    )  # fmt: skip
    shown = table(who, steps).set_index("rank")["own_seconds"]

    assert np.isfinite(shown[0])
    assert (known >= KNOWN_AT_LEAST) == np.isfinite(shown[1])
