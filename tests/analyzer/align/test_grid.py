"""The Grid: axes, gaps, resets, masks, coverage, clocks, telemetry as the windows saw it."""

import dataclasses
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.align.grid import align, garbage, on_one_clock
from lockstep.analyzer.shapes.run import RankInfo, Run
from lockstep.analyzer.shapes.windows import from_samples
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import Difficulty, Fault, Resolution, SyntheticFleet
from lockstep.evaluation.synth.untidy import clock_errors
from lockstep.evaluation.synth.whole import labelled
from tests.machine import slowness


def test_a_rank_without_the_window_has_nan_there(synthetic):
    run = synthetic(steps=20).run()
    lost = (run.windows["rank"] == 1) & (run.windows["from_step"] == 7)
    grid = align(dataclasses.replace(run, windows=run.windows[~lost]))

    assert [[7, 1]] == np.argwhere(np.isnan(grid.time["own"])).tolist()
    assert grid.coverage == pytest.approx(59 / 60)  # of the steps after warm-up


def test_warm_up_is_masked_by_its_tag_or_else_by_2_percent(synthetic):
    run = synthetic(steps=200).run()
    untagged = dataclasses.replace(run, windows=run.windows.assign(tags=""))

    assert (5, 4) == (align(run).masked.sum(), align(untagged).masked.sum())


def test_a_tag_on_one_rank_masks_the_step_for_all(synthetic):
    run = synthetic(steps=20).run()
    tagged = (run.windows["rank"] == 2) & (run.windows["from_step"] == 11)
    tags = run.windows["tags"].mask(tagged, "gc")
    grid = align(dataclasses.replace(run, windows=run.windows.assign(tags=tags)))

    assert grid.masked[11]


def test_gauges_go_to_the_rank_of_their_gpu_and_counters_become_rates(synthetic, fault):
    grid = align(synthetic(faults=[fault("thermal", 2)]).run())
    rate = grid.signals['lockstep_gpu_clock_event_seconds_total{reason="hw_thermal"}']
    clock = grid.signals['lockstep_gpu_clock_hertz{domain="sm"}']

    assert 0.9 == pytest.approx(np.median(rate[120:200, 2]))
    assert [0.0, 0.0, 0.0] == np.nanmax(rate[:, [0, 1, 3]], axis=0).tolist()
    assert [1.98e9, 1.32e9] == [clock[40, 2], clock[200, 2]]


def test_series_do_not_depend_on_the_order_of_the_samples(synthetic, fault):
    run = synthetic(faults=[fault("thermal", 2)]).run()
    mixed = dataclasses.replace(run, samples=run.samples.sample(frac=1.0, random_state=1))
    one, other = align(run), align(mixed)

    assert list(one.signals) == list(other.signals)
    for name, cells in one.signals.items():
        np.testing.assert_array_equal(cells, other.signals[name], err_msg=name)
        np.testing.assert_array_equal(one.last[name], other.last[name], err_msg=name)


def test_the_grid_of_a_series_is_made_when_it_is_asked_for_and_not_kept(synthetic):
    signals, clock = align(synthetic().run()).signals, 'lockstep_gpu_clock_hertz{domain="sm"}'

    assert clock in signals
    assert np.isfinite(signals[clock]).any()
    assert signals[clock] is not signals[clock]


def test_a_counter_that_fell_gives_no_rate(synthetic):
    def reset(samples):
        late = samples["time"] > samples["time"].median()
        cpu = samples["metric"] == "lockstep_host_cpu_seconds_total"
        return samples.assign(value=samples["value"].where(~(late & cpu), samples["value"] - 99))

    rate = align(synthetic(drop=reset).run()).signals[
        'lockstep_host_cpu_seconds_total{mode="user"}'
    ]

    assert 1.0 == pytest.approx(np.nanmax(rate))
    assert 1.0 == pytest.approx(np.nanmin(rate))
    assert np.isnan(rate).any(axis=0).all()


def test_a_lost_scrape_leaves_no_stale_gauge(synthetic):
    def gap(samples):
        begin = samples["time"].min()
        node = (samples["node"] == "node-1") & samples["time"].between(begin + 3, begin + 9.5)
        return samples[~node]

    grid = align(synthetic(steps=300, drop=gap).run())
    clock = grid.signals['lockstep_gpu_clock_hertz{domain="sm"}']

    assert np.isnan(clock[:, 1]).any()
    assert np.isfinite(clock[:, 0]).all()


def test_a_gone_rank_is_down_since_its_first_scrape_without_it(synthetic, fault):
    grid = align(synthetic(faults=[fault("crash", 1, first=80)]).run())

    assert grid.down_since[1] < np.delete(grid.down_since, 1).min()
    assert grid.scraped_until.min() >= grid.down_since.max()


def test_a_page_of_no_rank_that_is_up_tells_of_no_rank(synthetic):
    run = synthetic(seed=9, world=4, steps=40).run()
    up = run.samples[run.samples["metric"] == "lockstep_rank_up"]
    assert len(up)
    nobody = dataclasses.replace(run, samples=up.assign(rank=np.nan))

    assert np.isnan(align(nobody).down_since).all()


def test_a_restart_splits_scraped_windows_into_attempts(synthetic):
    run = synthetic(steps=200).run()
    later = run.samples.assign(time=run.samples["time"] + 60.0)
    windows = from_samples(pd.concat([run.samples, later], ignore_index=True))

    assert {0, 1} == set(windows["attempt"])
    assert (windows["wall_seconds"] > 0).all()


def test_scraped_windows_keep_seconds_per_step(synthetic):
    run = synthetic(steps=300, spikes=False).run()
    scraped = align(dataclasses.replace(run, windows=from_samples(run.samples)))
    by_step = align(run)

    assert np.nanmedian(scraped.time["own"]) == pytest.approx(
        np.nanmedian(by_step.time["own"]), rel=0.01
    )


@pytest.mark.timed
def test_ten_thousand_steps_of_64_ranks_align_in_under_a_second():
    steps, world = 10_000, 64
    rank = np.tile(np.arange(world), steps)
    step = np.repeat(np.arange(steps), world)
    names = ["wall", "own", "cpu", "collective", "data", "forward", "backward", "grad_sync"]
    names += ["optimizer", "checkpoint", "eval", "other"]
    windows = pd.DataFrame(
        {"rank": rank, "attempt": 0, "from_step": step, "to_step": step + 1, "start": step * 0.05,
         "end": step * 0.05 + 0.05, "steps": 1, "tags": "", "loss": 1.0,
         **{f"{name}_seconds": 0.04 for name in names}}
    )  # fmt: skip
    columns = ["time", "node", "gpu", "rank", "metric", "labels", "value"]
    samples = pd.DataFrame({name: [] for name in columns}).astype(
        {"metric": str, "labels": str, "time": float, "value": float}
    )
    ranks = tuple(RankInfo(r, f"node-{r // 8}", r % 8, None, r % 8, r, 0, 0) for r in range(world))
    with slowness() as machine:
        begun = time.thread_time()
        grid = align(Run("big", {}, ranks, windows, samples, None))
        took = time.thread_time() - begun

    assert (steps, world) == grid.time["own"].shape
    assert took < 1.0 * machine.factor


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
