"""A foreign trace as a Run: windows of its workers."""

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.read.optrace.windows import run_of_trace
from lockstep.analyzer.shapes.windows import COLUMNS, PHASE_COLUMNS
from lockstep.evaluation.synth import traces as synth

SCENE = synth.Scene(dp=2, pp=2, micro_batches=4, steps=6, slow=(synth.Slow(1, 0, 1.5),))


@pytest.fixture(scope="module")
def trace():
    return synth.trace(SCENE)


@pytest.fixture(scope="module")
def run(trace):
    return run_of_trace(trace)


def test_every_worker_has_a_window_a_step(run):
    assert list(COLUMNS) == list(run.windows)
    assert 2 * 2 * 6 == len(run.windows.drop_duplicates(["rank", "from_step"]))
    assert [(0, 0), (1, 0), (0, 1), (1, 1)] == [(info.dp, info.pp) for info in run.ranks]
    assert 4 == len({info.node for info in run.ranks})


def test_own_time_is_that_of_local_work(run, trace):
    rows = trace.of("forward-compute", "backward-compute", "optimizer", "gc")
    mine = run.windows.query("rank == 1 and from_step == 3").iloc[0]

    expected = trace.duration[rows & (trace.stage == 0), 1, 3].sum()
    assert pytest.approx(expected) == mine["own_seconds"]
    assert pytest.approx(trace.end[:, :, 3].max()) == mine["wall_seconds"]


def test_phases_are_all_of_a_step(run):
    phases = run.windows[list(PHASE_COLUMNS)].sum(axis=1)

    assert (phases >= run.windows["wall_seconds"] - 1e-9).all()


def test_it_aligns_like_any_run(run):
    grid = align(run)

    assert (6, 4) == grid.time["own"].shape
    assert 1.0 == grid.coverage
    own = grid.time["own"].mean(axis=0)
    assert pytest.approx(1.5, abs=0.05) == own[1] / own[0]
    assert np.isfinite(grid.time["wall"]).all()
