"""Telemetry that cannot be true makes causes less sure and is never evidence."""

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.causes.telemetry_quality import drop_stuck_sensors
from lockstep.analyzer.verdict.pipeline import diagnose


def _busy_and_idle(rank):
    """100 % utilisation at the power of an idle GPU."""

    def edit(samples):
        mine = samples["node"] == f"node-{rank}"
        power = mine & (samples["metric"] == "lockstep_gpu_power_watts")
        busy = mine & (samples["metric"] == "lockstep_gpu_utilization_ratio")
        value = samples["value"].where(~power, 70.0).where(~busy, 1.0)
        return samples.assign(value=value)

    return edit


def _power_moves_but_on(rank):
    """Every GPU's power is noisy, but one's that is read once and told forever."""

    def edit(samples):
        power = samples["metric"] == "lockstep_gpu_power_watts"
        alive = power & (samples["node"] != f"node-{rank}")
        dead = power & ~alive
        noise = np.random.default_rng(1).normal(0, 5, len(samples))
        value = samples["value"].where(~alive, samples["value"] + noise).where(~dead, 560.0)
        return samples.assign(value=value)

    return edit


@pytest.mark.parametrize("kind", ["thermal", "compute"])
def test_with_full_utilisation_at_idle_power_the_cause_is_unknown(synthetic, fault, kind):
    faults = [fault(kind, 2, 1.5, 80)]
    (doubted,) = diagnose(synthetic(faults=faults, drop=_busy_and_idle(2)).run()).verdict.culprits

    assert (2, "unknown") == (doubted.rank, doubted.cause)
    assert any("as if idle: one of the two is wrong" in f.text for f in doubted.evidence)


def test_a_gpu_of_which_neither_clock_nor_throttling_is_known_is_slow_for_an_unknown_cause(
    synthetic, fault
):
    def blind(samples):
        return samples[~samples["metric"].str.contains("gpu_clock|gpu_power|gpu_temp")]

    (culprit,) = diagnose(synthetic(faults=[fault("power", 2)], drop=blind).run()).verdict.culprits

    assert (2, "unknown") == (culprit.rank, culprit.cause)


def test_the_same_on_a_peer_leaves_the_culprit_alone(synthetic, fault):
    faults = [fault("thermal", 2, 1.5, 80)]
    sure = diagnose(synthetic(faults=faults).run()).verdict.culprits[0]
    same = diagnose(synthetic(faults=faults, drop=_busy_and_idle(1)).run()).verdict.culprits[0]

    assert (sure.cause, pytest.approx(sure.confidence, abs=0.02)) == (same.cause, same.confidence)


def test_a_cause_that_does_not_rest_on_the_gpu_stays(synthetic, fault):
    faults = [fault("cpu-quota", 2, 1.5, 80)]
    same = diagnose(synthetic(faults=faults, drop=_busy_and_idle(2)).run()).verdict.culprits[0]

    assert ("host-cpu", True) == (same.cause, same.confidence > 0.8)


def test_a_source_that_never_moves_is_no_evidence_and_is_told_as_missing(synthetic, fault):
    recipe = synthetic(
        faults=[fault("compute", 2, 1.5, 80)], drop=_power_moves_but_on(2), steps=320
    )
    verdict = diagnose(recipe.run()).verdict
    (culprit,) = verdict.culprits

    assert any("rank 2: it never moves" in words for words in verdict.missing)
    assert not any("reports no throttling" in fact.text for fact in culprit.evidence)
    assert any(fact.text.startswith("unknown: ") for fact in culprit.evidence)


def test_a_fleet_whose_power_stands_still_everywhere_is_believed(synthetic):
    grid = align(synthetic(steps=320).run())

    assert grid is drop_stuck_sensors(grid)


def test_a_grid_without_gpus_is_believed(synthetic):
    grid = align(synthetic(gpus=False).run())

    assert grid is drop_stuck_sensors(grid)
