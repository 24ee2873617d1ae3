"""Synthetic fleets are what was asked for, obey physics, and come again from the same seed."""

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract import archive
from lockstep.collector.contract.metrics import METRICS
from lockstep.collector.contract.words import PHASES, Cause
from lockstep.evaluation.synth.fleet import (
    Benign,
    Defect,
    Fault,
    Resolution,
    SynthError,
    SyntheticFleet,
    Telling,
)
from lockstep.evaluation.synth.times import times
from lockstep.evaluation.synth.whole import labelled

SMALL = SyntheticFleet(dp=8, steps=300, resolution=Resolution.STEP, seed=7)
HOT = Fault(Cause.THERMAL, "hw", 5, 1.4, 150)


def _fleet(**changed):
    return SyntheticFleet(**{**{name: getattr(SMALL, name) for name in SMALL.__slots__}, **changed})


def _series(grid, metric, labels=""):
    return grid.signals[f"{metric}{{{labels}}}" if labels else metric]


@pytest.fixture(scope="module")
def hot():
    return align(labelled(_fleet(faults=(HOT,))).run)


def test_a_seed_gives_the_same_run():
    one, other = labelled(SMALL).run, labelled(SMALL).run

    pd.testing.assert_frame_equal(one.samples, other.samples)
    pd.testing.assert_frame_equal(one.windows, other.windows)
    assert not one.windows.equals(labelled(_fleet(seed=8)).run.windows)


def test_every_series_is_in_the_contract():
    told = labelled(_fleet(faults=(HOT,))).run.samples

    assert set() == set(told["metric"]) - set(METRICS) - {"up"}
    assert [column.name for column in archive.SAMPLES] == list(told)


def test_the_phases_of_a_step_are_all_of_it_and_all_ranks_end_together():
    fleet = _fleet(dp=4, tp=2, pp=2, faults=(HOT,))
    made = times(fleet, np.random.default_rng(0))
    total = np.sum([made.by_phase[phase] for phase in PHASES], axis=0)

    assert np.allclose(total, made.wall[:, None])
    assert np.allclose(made.wall[:, None] - made.own, sum(made.by_group.values()))


def test_the_latest_rank_waits_least():
    made = times(_fleet(faults=(HOT,)), np.random.default_rng(0))
    waits = np.median(made.by_group["dp"][150:], axis=0)

    assert 5 == int(np.argmin(waits))


def test_the_factor_that_a_fault_had_is_the_one_that_was_asked_for():
    entry = labelled(_fleet(faults=(HOT,))).truth[0]

    assert pytest.approx(1.4, abs=0.01) == entry["factor_measured"]
    assert (5, "node-0", "thermal", 150) == tuple(
        entry[key] for key in ("rank", "node", "cause", "from_step")
    )


def test_temperature_rises_first_and_then_the_clock_falls(hot):
    heat = _series(hot, "lockstep_gpu_temperature_celsius", 'sensor="gpu"')[:, 5]
    clock = _series(hot, "lockstep_gpu_clock_hertz", 'domain="sm"')[:, 5]
    warm = np.flatnonzero(heat > heat[:100].max() + 5)[0]
    slow = np.flatnonzero(clock < 0.9 * clock[:100].min())[0]

    assert warm < slow
    assert abs(slow - 150) * SMALL.step_seconds <= 2 * SMALL.scrape_seconds


def test_a_capped_gpu_draws_its_cap_and_no_more():
    grid = align(labelled(_fleet(faults=(Fault(Cause.POWER, "limit", 2, 1.5, 150),))).run)
    power = _series(grid, "lockstep_gpu_power_watts")[170:, 2]
    limit = _series(grid, "lockstep_gpu_power_limit_watts", 'kind="enforced"')[170:, 2]

    assert np.all(np.abs(power / limit - 0.99) < 0.03)
    assert np.nanmax(limit) < 700.0


def test_windows_of_scrapes_tell_the_same_slowdown_as_steps(hot):
    scraped = align(labelled(_fleet(faults=(HOT,), resolution=Resolution.SCRAPE)).run)

    def ratio(grid):
        own, late = grid.time["own"], grid.from_step >= 170
        others = np.delete(own[late], 5, axis=1)
        return np.nanmedian(own[late, 5]) / np.nanmedian(others)

    assert ratio(hot) == pytest.approx(ratio(scraped), rel=0.03)


def test_after_a_crash_nobody_completes_a_step_and_the_rank_is_gone():
    run = labelled(_fleet(faults=(Fault(Cause.CRASH, "exit", 3, float("nan"), 100),))).run
    grid = align(run)

    assert 100 == grid.to_step.max()
    assert [3] == np.flatnonzero(np.isfinite(grid.down_since)).tolist()


def test_missing_telemetry_leaves_only_what_the_ranks_tell():
    blind = Fault(Cause.THERMAL, "hw", 5, 1.4, 150, telling=Telling.MISSING)
    made = labelled(_fleet(faults=(blind,)))

    assert "unknown" == made.truth[0]["cause"]
    assert not made.run.samples["metric"].str.startswith("lockstep_gpu_").any()


@pytest.mark.parametrize("defect", list(Defect))
def test_telemetry_with_a_defect_still_loads(defect):
    fleet = _fleet(dp=16, defects=(defect,), resolution=Resolution.SCRAPE)
    grid = align(labelled(fleet).run)

    assert 16 == len(grid.ranks)
    assert np.isfinite(grid.time["wall"]).any()
    assert np.isfinite(grid.time["own"]).any() == (defect is not Defect.UNTIMED)


def test_half_a_silent_fleet_lowers_the_coverage():
    grid = align(
        labelled(_fleet(dp=16, defects=(Defect.SILENT,), resolution=Resolution.SCRAPE)).run
    )

    assert 0.6 < grid.coverage < 0.9


def test_planned_pauses_are_tagged_in_archives_only():
    fleet = _fleet(benign=(Benign.EVALUATION, Benign.CHECKPOINT))
    tags = set(labelled(fleet).run.windows["tags"])

    assert {"", "warmup", "eval", "checkpoint"} == tags


def test_a_fleet_that_fills_no_node_is_refused_in_a_sentence():
    with pytest.raises(SynthError, match="is 6 ranks; it must be a multiple of 8"):
        SyntheticFleet(dp=6)


@pytest.mark.parametrize("resolution", list(Resolution))
@pytest.mark.parametrize("faults", [(), (HOT,)])
def test_where_no_waits_are_timed_nobody_is_named_and_the_run_is_unknown(resolution, faults):
    run = labelled(_fleet(resolution=resolution, faults=faults, defects=(Defect.UNTIMED,))).run
    verdict = diagnose(run).verdict

    assert len(run.windows)
    assert ("unknown", (), ()) == (verdict.status, verdict.culprits, verdict.structure)


@pytest.mark.sweep(sample=3)
@pytest.mark.parametrize("resolution", list(Resolution))
@pytest.mark.parametrize(("faults", "named"), [((), []), ((HOT,), [5])])
@pytest.mark.parametrize("benign", [(), (Benign.UNIFORM,)])
def test_where_some_waits_are_not_timed_only_the_slow_rank_is_named(
    resolution, faults, named, benign
):
    fleet = _fleet(
        resolution=resolution, faults=faults, benign=benign, defects=(Defect.PARTLY_UNTIMED,)
    )
    verdict = diagnose(labelled(fleet).run).verdict

    assert (3, 7) == fleet.untimed
    assert named == [one.rank for one in verdict.culprits]
    assert ("degraded" if named else "unknown") == verdict.status
