"""Where strata are small, the ranks' own past names one in each of them."""

import dataclasses

import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stragglers.model.effects import effects


@pytest.fixture(scope="module")
def healthy(synthetic):
    """Two replicas of two stages."""
    run = synthetic(seed=3, world=4, steps=240, telemetry=False).run()
    ranks = tuple(dataclasses.replace(i, pp=i.rank // 2, dp=i.rank % 2) for i in run.ranks)
    return dataclasses.replace(run, ranks=ranks)


def found(run):
    return [finding.rank for finding in effects(align(run))]


def test_two_slow_ranks_of_two_stages_are_both_named(healthy, slowed, steadily):
    run = slowed(slowed(healthy, [0], 1.5, steadily(80)), [3], 1.3, steadily(120))

    assert [0, 3] == sorted(found(run))


@pytest.mark.parametrize("rank", range(4))
def test_one_slow_rank_is_named_alone(healthy, slowed, steadily, rank):
    assert [rank] == found(slowed(healthy, [rank], 1.5, steadily(80)))


def test_two_slow_ranks_of_one_stage_are_told_by_the_other_stage(healthy, slowed, steadily):
    run = slowed(slowed(healthy, [0], 1.5, steadily(60)), [1], 1.5, steadily(150))

    assert [0, 1] == sorted(found(run))


def test_healthy_ranks_are_silent(healthy):
    assert [] == found(healthy)
