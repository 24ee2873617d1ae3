"""Runs that are started again: slowly, or smaller."""

from typing import Any

import pytest

from lockstep.analyzer.findings.finding import Kind, Tier
from lockstep.watch.judge.diagnoses import Diagnoses
from tests.watch.cluster_life import SimulatedRun
from tests.watch.few_runs import EVERY, crashes, culprit, judged


class Loading(SimulatedRun):
    """It makes its first step after two minutes."""

    def steps(self, time: float) -> float:
        return 0.0 if time < self.begun + 120.0 else super().steps(time - 120.0)


@pytest.mark.sweep(sample=2)
@pytest.mark.parametrize("after", [90.0, 105.0, 135.0])
@pytest.mark.parametrize("loads", [False, True])
def test_a_crash_is_told_once_though_the_run_that_is_started_again_makes_no_step_yet(
    few_runs, monkeypatch, loads, after
):
    def verdict(diagnoses: Diagnoses, connection: Any, seen: Any, wish: Any, *_: Any) -> None:
        """As a diagnosis of a run whose rank 3 was killed."""
        run = next(one for one in connection.cluster.runs if one.run == wish.run)
        died = seen.now >= run.over
        if died:
            diagnoses._concluded.add(wish.run)
        named = [culprit(3, run.over, None, "crash")] if died else []
        judged(diagnoses, wish.run, seen.now, named)

    monkeypatch.setattr(Diagnoses, "_one", verdict)
    world = few_runs()
    world.begin("other", 1)
    run = world.begin("gpt")
    world.go(330.0)
    crashes(run, world.now + 1.0)
    world.go(after)
    assert [(3, Tier.PAGE)] == world.stops()
    again = world.begin("gpt", attempt=1)
    again.__class__ = Loading if loads else SimulatedRun
    world.go(300.0)

    assert [(3, Tier.PAGE)] == world.stops(), [one.ending for one in world.closed]


@pytest.mark.parametrize("shrinks", [False, True])
def test_a_run_that_goes_on_with_fewer_ranks_and_finishes_ended_as_it_should(few_runs, shrinks):
    world = few_runs()
    world.begin("other", 1)
    run = world.begin("gpt")
    world.go(120.0)
    # Ranks 2 and 3 leave; torchrun goes on with ranks 0 and 1 as its next attempt.
    run.no_series_of = {0, 1}
    run.dies, run.states = dict.fromkeys(EVERY, world.now), dict.fromkeys(EVERY, "failed")
    again = world.begin("gpt", attempt=1)
    if shrinks:
        again.no_series_of = {2, 3}
        world.cluster.runs.insert(0, run)
    world.go(300.0)  # the collectors still tell of ranks 2 and 3
    again.dies, again.states = dict.fromkeys(EVERY, world.now), dict.fromkeys(EVERY, "finished")
    before = len(world.opened)
    world.go(120.0)

    ends = [one.sentence for one in world.opened[before:] if one.kind is Kind.STOP]
    assert [] == ends
