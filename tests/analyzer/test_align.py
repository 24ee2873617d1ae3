"""The Grid: axes, gaps, resets, masks, coverage, telemetry as the windows saw it."""

import dataclasses
import time

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.align import telemetry
from lockstep.analyzer.align.grid import align
from lockstep.analyzer.shapes.run import RankInfo, Run
from lockstep.analyzer.shapes.windows import from_samples
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


def test_a_series_that_nobody_asks_for_becomes_no_grid(synthetic, monkeypatch):
    grid = align(synthetic().run())
    asked = []
    seen = telemetry._gauges
    monkeypatch.setattr(telemetry, "_gauges", lambda *args: asked.append(1) or seen(*args))

    assert 'lockstep_gpu_clock_hertz{domain="sm"}' in grid.signals
    assert [] == asked
    assert np.isfinite(grid.signals['lockstep_gpu_clock_hertz{domain="sm"}']).any()
    assert asked


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
