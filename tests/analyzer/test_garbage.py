"""Seconds in the garbage collector, from operations."""

import numpy as np
import pandas as pd

from lockstep.analyzer.align.grid import garbage
from lockstep.analyzer.shapes.run import RankInfo

RANKS = tuple(RankInfo(r, f"node-{r}", None, None, 0, r, 0, 0) for r in range(3))
STEPS = np.arange(10, 14)


def _ops(rows):
    return pd.DataFrame(rows, columns=["rank", "step", "optype", "duration"])


def test_collections_of_a_step_add_up_and_steps_without_one_are_zero():
    ops = _ops([(0, 10, "optimizer", 1.0), (0, 12, "gc", 0.2), (0, 12, "gc", 0.1),
                (1, 10, "optimizer", 1.0), (1, 13, "optimizer", 1.0)])  # fmt: skip

    np.testing.assert_allclose(
        [[0, 0, np.nan], [0, 0, np.nan], [0.3, 0, np.nan], [np.nan, 0, np.nan]],
        garbage(ops, RANKS, STEPS),
    )


def test_a_run_that_never_told_of_a_collection_does_not_know():
    ops = _ops([(0, 10, "optimizer", 1.0), (0, 13, "optimizer", 1.0)])

    assert np.isnan(garbage(ops, RANKS, STEPS)).all()
    assert np.isnan(garbage(None, RANKS, STEPS)).all()


def test_windows_of_several_steps_are_not_told_apart():
    ops = _ops([(0, 10, "gc", 0.2), (0, 20, "gc", 0.2)])

    assert np.isnan(garbage(ops, RANKS, np.array([10, 15, 20]))).all()
