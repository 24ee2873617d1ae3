"""Samples are put where their own node's steps are, and nowhere else without need."""

from dataclasses import replace

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align, on_one_clock
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import Difficulty, Fault, Resolution, SyntheticFleet
from lockstep.evaluation.synth.untidy import clock_errors
from lockstep.evaluation.synth.whole import labelled

FLEET = SyntheticFleet(
    dp=40, steps=400, resolution=Resolution.STEP, seed=3, difficulties=(Difficulty.CLOCKS,)
)


@pytest.fixture(scope="module")
def apart():
    return labelled(FLEET).run


def test_the_clocks_of_nodes_that_are_apart_are_put_together(apart):
    right = labelled(replace(FLEET, difficulties=())).run
    grid = align(apart)
    mended = on_one_clock(apart.samples, grid.to_step, grid.end)
    error = (mended["time"] - right.samples["time"]).groupby(mended["node"]).mean()

    assert np.ptp(clock_errors(FLEET)) > 60.0
    assert np.ptp(error) < 2.0 * FLEET.step_seconds + 4.0


def test_clocks_that_agree_are_left_alone():
    run = labelled(replace(FLEET, difficulties=())).run
    grid = align(run)

    assert run.samples is on_one_clock(run.samples, grid.to_step, grid.end)


def test_a_restart_or_a_run_without_steps_is_left_alone(apart):
    grid = align(apart)
    back = np.concatenate([grid.to_step, grid.to_step])

    assert apart.samples is on_one_clock(apart.samples, back, np.tile(grid.end, 2))
    assert apart.samples is on_one_clock(apart.samples, grid.to_step[:0], grid.end[:0])
    silent = apart.samples[apart.samples["metric"] == "up"]
    assert silent is on_one_clock(silent, grid.to_step, grid.end)


@pytest.mark.parametrize("broken", ["stuck", "origin", "restarted", "rare"])
def test_a_counter_that_is_no_clock_moves_nothing(broken):
    run = labelled(replace(FLEET, difficulties=())).run
    grid = align(run)
    samples = run.samples.copy()
    mine = (samples["node"] == "node-1") & (samples["metric"] == "lockstep_train_steps_total")
    if broken == "stuck":
        samples.loc[mine, "value"] = samples.loc[mine, "value"].clip(upper=100)
    elif broken == "origin":
        samples.loc[mine, "value"] -= 350
    elif broken == "restarted":
        samples.loc[mine, "value"] %= 200
    else:
        samples = samples[~mine | (samples["time"] == samples[mine]["time"].min())]
        samples.loc[mine, "value"] = 30.0

    assert samples is on_one_clock(samples, grid.to_step, grid.end)


def test_moments_that_gauges_tell_are_mended_as_well(apart):
    fault = Fault(Cause.XID, "62", 13, 1.5, 150)
    run = labelled(replace(FLEET, faults=(fault,))).run
    grid = align(run)
    told = run.samples["metric"] == "lockstep_gpu_xid_last_timestamp_seconds"
    mended = on_one_clock(run.samples, grid.to_step, grid.end)[told]
    onset = grid.end[grid.to_step == 150][0]

    assert np.abs(mended["value"] - onset).max() < 10.0
    assert ["xid"] == [culprit.cause for culprit in diagnose(run).verdict.culprits]


@pytest.mark.parametrize("cause", [Cause.FREEZE, Cause.CRASH])
def test_who_stopped_first_is_told_by_the_run_and_not_by_wrong_clocks(cause):
    fleet = replace(FLEET, faults=(Fault(cause, "stop", 13, float("nan"), 200),))
    verdict = diagnose(labelled(fleet).run).verdict

    assert [(13, cause.value)] == [(one.rank, one.cause) for one in verdict.culprits]
