"""What began only just now is told from one pause, and from what is healthy."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stragglers.model.effects import effects
from lockstep.analyzer.verdict.pipeline import diagnose


@pytest.fixture(scope="module")
def healthy(synthetic):
    return synthetic(seed=7, world=8, steps=200, telemetry=False).run()


def until(run, step):
    return dataclasses.replace(run, windows=run.windows[run.windows["from_step"] < step])


def test_a_rank_is_named_ten_steps_after_it_became_slow(healthy, slowed, steadily):
    grid = align(until(slowed(healthy, [3], 1.3, steadily(150)), 161))
    (finding,) = effects(grid)

    assert (3, None) == (finding.rank, finding.last)
    assert abs(finding.slowdown - 1.3) < 0.06
    assert abs(int(grid.from_step[finding.first]) - 150) <= 3


@pytest.mark.parametrize("step", range(100, 201, 20))
def test_a_healthy_run_is_silent_whenever_it_is_asked(healthy, step):
    assert () == effects(align(until(healthy, step)))


def test_one_long_pause_is_no_slowness(healthy, slowed):
    run = slowed(healthy, [3], 4.0, lambda step: np.isin(step, [191, 196]).astype(float))

    assert () == effects(align(run))


@pytest.mark.parametrize(
    ("total", "steps", "factor", "named"),
    [(800, 80, 1.6, True), (800, 80, 1.12, False), (240, 24, 1.6, True), (240, 12, 1.6, False)],
)
def test_what_came_and_went_is_named_by_what_it_cost(
    synthetic, slowed, total, steps, factor, named
):
    """A percent of the run and twenty steps, however long the run is; it wakes nobody."""
    long, begin = synthetic(seed=7, world=8, steps=total, telemetry=False).run(), total // 3
    run = slowed(long, [5], factor, lambda step: (step >= begin) & (step < begin + steps))
    culprits = diagnose(run).verdict.culprits

    assert ([5] if named else []) == [one.rank for one in culprits]
    assert all(one.tier == "record" and abs(one.from_step - begin) <= 3 for one in culprits)


def test_less_than_a_tenth_is_named_after_more_steps(healthy, slowed, steadily):
    run = slowed(healthy, [3], 1.06, steadily(150))

    assert () == effects(align(until(run, 160)))
    assert [3] == [each.rank for each in effects(align(run))]
