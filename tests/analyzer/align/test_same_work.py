"""Own times at the same work: what differs by tokens alone is the same, what is slow stays slow."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.align.same_work import exponent, for_same_work
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import Difficulty, Fault, Resolution, SyntheticFleet
from lockstep.evaluation.synth.whole import labelled

UNEVEN = SyntheticFleet(
    dp=8, tp=2, steps=400, resolution=Resolution.STEP, seed=11, difficulties=(Difficulty.UNEVEN,)
)


def _more(grid):
    told = np.log(grid.work_by_rank)
    return told - np.nanmedian(told, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def grid():
    return align(labelled(UNEVEN).run)


def test_by_how_much_compute_grows_with_tokens_is_learned(grid):
    assert pytest.approx(1.2, abs=0.1) == exponent(grid, _more(grid))[0]


@pytest.mark.parametrize("resolution", list(Resolution))
def test_ranks_with_longer_sequences_are_not_slow(resolution):
    assert () == diagnose(labelled(replace(UNEVEN, resolution=resolution)).run).verdict.culprits


@pytest.mark.parametrize("resolution", list(Resolution))
def test_one_that_is_slow_as_well_is_named_alone(resolution):
    hot = Fault(Cause.THERMAL, "hw", 5, 1.35, 150)
    run = labelled(replace(UNEVEN, faults=(hot,), resolution=resolution)).run

    assert [5] == [culprit.rank for culprit in diagnose(run).verdict.culprits]


def test_the_same_work_changes_nothing(grid):
    same = replace(grid, work_by_rank=np.full_like(grid.work_by_rank, 8192.0))

    assert same is for_same_work(same)
    assert for_same_work(replace(grid, work_by_rank=None)).time["own"] is grid.time["own"]


def test_work_that_is_told_by_some_changes_only_these(grid):
    partly = grid.work_by_rank.copy()
    partly[:, :4] = np.nan
    before, after = grid.time["own"], for_same_work(replace(grid, work_by_rank=partly)).time["own"]

    assert np.array_equal(before[:, :4], after[:, :4])
    assert not np.array_equal(before[:, 4:], after[:, 4:])


def test_where_own_time_is_not_known_it_stays_unknown(grid):
    blind = grid.time["own"].copy()
    blind[:, 3] = np.nan
    after = for_same_work(replace(grid, time={**grid.time, "own": blind})).time["own"]

    assert np.array_equal(np.isnan(blind), np.isnan(after))
    nobody = replace(grid, time={**grid.time, "own": np.full_like(blind, np.nan)})
    assert np.isnan(for_same_work(nobody).time["own"]).all()


@pytest.mark.parametrize("share", [0.5, 0.8, 2.0])
def test_work_that_is_told_wrongly_and_always_names_nobody(share):
    even = labelled(SyntheticFleet(dp=8, steps=400, resolution=Resolution.STEP, seed=11)).run
    told = even.windows.copy()
    told.loc[told["rank"] == 3, ["tokens", "flops"]] *= share
    hot = Fault(Cause.THERMAL, "hw", 3, 1.35, 150)
    slow = labelled(
        SyntheticFleet(dp=8, steps=400, resolution=Resolution.STEP, seed=11, faults=(hot,))
    ).run
    wrong = slow.windows.copy()
    wrong.loc[wrong["rank"] == 3, ["tokens", "flops"]] *= share

    assert () == diagnose(replace(even, windows=told)).verdict.culprits
    named = diagnose(replace(slow, windows=wrong)).verdict.culprits
    assert [3] == [culprit.rank for culprit in named]


def test_padded_batches_cost_the_same_whatever_is_told():
    even = labelled(SyntheticFleet(dp=8, steps=400, resolution=Resolution.STEP, seed=11)).run
    share = np.exp(0.2 * np.random.default_rng(0).standard_normal(8))
    told = even.windows.copy()
    for name in ("tokens", "flops"):
        told[name] *= share[told["rank"].to_numpy(dtype=int)]

    assert () == diagnose(replace(even, windows=told)).verdict.culprits


def test_the_exponent_stays_within_what_compute_can_do(grid):
    backwards = replace(grid, time={**grid.time, "own": 1.0 / grid.work_by_rank})

    assert 0.0 == exponent(backwards, _more(grid))[0]


def test_the_measure_that_most_ranks_tell_is_taken():
    run = labelled(UNEVEN).run
    partly = run.windows.copy()
    partly.loc[partly["rank"] != 0, "flops"] = 0.0

    assert () == diagnose(replace(run, windows=partly)).verdict.culprits
