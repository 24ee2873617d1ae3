"""Published rules on runs whose answer is known from their definition."""

import numpy as np

from lockstep.analyzer.align.grid import align
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.published_rules import BASELINES, minder, nvrx, published_answers, zscore
from lockstep.evaluation.synth.fleet import Fault, Resolution, SyntheticFleet
from lockstep.evaluation.synth.whole import labelled


def _grid(world=8, factor=None, rank=5, cause=Cause.SLOW_GPU):
    faults = () if factor is None else (Fault(cause, "cap", rank, factor, 100),)
    fleet = SyntheticFleet(dp=world, steps=500, resolution=Resolution.STEP, faults=faults, seed=3)
    return align(labelled(fleet).run)


def test_all_rules_answer_with_ranks_of_the_run():
    answers = published_answers(_grid(factor=1.8))

    assert set(BASELINES) == set(answers)
    assert all(set(ranks) <= set(range(8)) for ranks in answers.values())


def test_nvrx_flags_a_rank_of_one_point_five_and_not_one_of_one_point_two():
    assert ([5], []) == (list(nvrx(_grid(factor=1.6))), list(nvrx(_grid(factor=1.2))))


def test_a_z_score_of_eight_ranks_can_never_exceed_three():
    assert [] == list(zscore(_grid(factor=3.0)))


def test_a_z_score_of_sixteen_ranks_can():
    assert [5] == list(zscore(_grid(world=16, factor=2.0)))


def test_minders_distance_finds_a_machine_that_differs_in_its_telemetry():
    assert [5] == list(minder(_grid(world=16, factor=2.0, cause=Cause.POWER)))


def test_a_healthy_run_without_telemetry_accuses_nobody():
    grid = _grid()
    empty = {key: np.full_like(cells, np.nan) for key, cells in grid.signals.items()}

    assert [] == list(minder(type(grid)(**{**{name: getattr(grid, name)
                      for name in grid.__slots__}, "signals": empty})))  # fmt: skip
