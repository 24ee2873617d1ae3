"""Who was let go, and for which reason."""

import dataclasses
import re

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.read.optrace.load import run_of_trace
from lockstep.analyzer.shapes.run import Finding
from lockstep.analyzer.verdict.rejected import rejected
from lockstep.evaluation.synth import traces as synth

CULPRIT = synth.Slow(dp=1, stage=0, factor=1.5, from_step=30)
SCENE = synth.Scene(dp=4, pp=2, micro_batches=4, steps=60, last_stage=2.0, slow=(CULPRIT,), seed=2)


def _grid(scene):
    return align(run_of_trace(synth.trace(scene)))


def _slow(grid, dp, first, last=None):
    rank = next(info.rank for info in grid.ranks if (info.dp, info.pp) == (dp, 0))
    return Finding("peers", "slow", rank, first, last, 1.5, (1.4, 1.6), 9.0, {}, "")


@pytest.fixture(scope="module")
def grid():
    return _grid(SCENE)


def _waits(one):
    return float(re.search(r"waits ([\d.]+) ms", one.why)[1]) / 1e3


def test_a_wait_that_was_there_before_is_nobodys(grid):
    """The first stage waits for the heavy last one in all steps."""
    culprit = _slow(grid, 1, 30)
    place = {info.rank: column for column, info in enumerate(grid.ranks)}
    told = rejected(grid, [culprit], [])

    assert told
    for one in told:
        waited = grid.time["collective"][:, place[one.rank]]
        more = np.median(waited[30:]) - np.median(waited[3:30])
        assert _waits(one) == pytest.approx(more, abs=1e-4)
        assert f"ms more per step for rank {culprit.rank}" in one.why


def test_own_time_is_compared_inside_the_stage(grid):
    """The last stage computes twice as long as the first."""
    told = rejected(grid, [_slow(grid, 1, 30)], [])
    ratios = [float(re.search(r"own time is ([\d.]+)x", one.why)[1]) for one in told]

    assert ratios == pytest.approx([1.0] * len(told), abs=0.05)


def test_who_waits_no_longer_than_before_is_not_listed():
    grid = _grid(dataclasses.replace(SCENE, slow=()))

    assert () == rejected(grid, [_slow(grid, 1, 30)], [])


def test_without_a_step_before_the_wait_is_not_the_culprits_alone():
    grid = _grid(dataclasses.replace(SCENE, slow=(dataclasses.replace(CULPRIT, from_step=0),)))
    told = rejected(grid, [_slow(grid, 1, 0)], [])

    assert told
    assert all(
        "for rank" in one.why and "or by design: no step without it is seen" in one.why
        for one in told
    )


def test_steps_of_another_culprit_are_not_before(grid):
    """Before step 30 another rank was slow, and the others waited for that one."""
    both = dataclasses.replace(
        SCENE, slow=(CULPRIT, dataclasses.replace(CULPRIT, dp=2, from_step=10, to_step=30))
    )
    two = _grid(both)
    told = rejected(two, [_slow(two, 1, 30), _slow(two, 2, 10, 30)], [])
    alone = {one.rank: _waits(one) for one in rejected(grid, [_slow(grid, 1, 30)], [])}
    shared = [one for one in told if one.rank in alone]

    assert shared
    assert [alone[one.rank] for one in shared] == pytest.approx(
        [_waits(one) for one in shared], rel=0.2
    )
