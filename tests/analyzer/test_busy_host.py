"""Verdicts of runs on a crowded host: a phase is judged by its own noise, not by the step's."""

import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stragglers.model.minimum_detectable_effect import smallest_noticed
from lockstep.analyzer.verdict.pipeline import diagnose
from tests.analyzer.busy_host import Busy


def named(run: Busy) -> list[tuple[int | None, str]]:
    return [(one.rank, one.cause) for one in diagnose(run.run()).verdict.culprits]


@pytest.mark.parametrize("seed", [2001, 2006])
def test_a_loader_that_became_slow_is_named_beside_steps_that_are_many_times_noisier(seed):
    """0.3 ms become 45 on one rank alone; computing takes 50 to 110 ms, as the host lets it."""
    run = Busy(seed=seed, phase="data", rank=2, waits=40.0, seconds=0.045)

    assert smallest_noticed(align(run.run())) > 4
    assert [(2, "data")] == named(run)


@pytest.mark.parametrize("phase", ["forward", "backward"])
@pytest.mark.parametrize("program", [True, False])
def test_a_rank_whose_steps_became_steadily_longer_is_named_beside_long_waits(phase, program):
    """20 ms become 60 from step 60 on; every third step of each rank holds waits of 150 ms."""
    run = Busy(seed=2003, phase=phase, more=0.04, waits=10.0, seconds=0.15, named=program)

    assert smallest_noticed(align(run.run())) > 4
    assert [2] == [rank for rank, _ in named(run)]


def test_collecting_garbage_is_told_beside_steps_that_are_noisier():
    run = Busy(seed=2000, phase="gc", more=0.04, waits=15.0)

    assert [(2, "gc")] == named(run)


def test_a_rank_that_writes_checkpoints_longer_is_told_whatever_its_steps_do():
    run = Busy(seed=2000, phase="checkpoint", more=3.0, waits=40.0, seconds=0.045)

    assert [(2, "checkpoint")] == named(run)


@pytest.mark.parametrize("seed", [5010, 5027, 5043])
def test_how_the_host_happens_to_treat_ranks_names_nobody(seed):
    """Seeds in which what is usual of one rank's computing is a quarter longer than of the others.

    Each took 0.2 ms to load, and was named for what its computing takes, which had no noise.
    """
    number = seed - 5000
    waits, seconds = (15.0, 0.03) if number // 2 % 4 == 0 else (30.0, 0.04)
    world = (4, 8, 3)[number % 3]
    run = Busy(seed=seed, world=world, waits=waits, seconds=seconds, named=number % 2 == 0)

    assert [] == named(run)
