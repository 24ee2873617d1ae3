"""The null case first: a healthy run says healthy, and too little data says unknown."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stragglers.model.minimum_detectable_effect import smallest_noticed
from lockstep.analyzer.verdict.pipeline import diagnose


@pytest.mark.sweep
@pytest.mark.parametrize("noise", [0.02, 0.08])
@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_run_says_healthy(synthetic, seed, noise):
    world = (2, 3, 4, 8)[seed % 4]
    verdict = diagnose(
        synthetic(seed=seed, noise=noise, world=world, telemetry=False).run()
    ).verdict

    assert ("healthy", ()) == (verdict.status, verdict.culprits)


@pytest.mark.parametrize("burst", [(1, 60, 68, 2.5), (2, 50, 75, 1.3), (0, 100, 104, 8.0)])
def test_a_short_burst_on_one_rank_names_nobody(synthetic, burst):
    verdict = diagnose(synthetic(seed=3, burst=burst, telemetry=False).run()).verdict

    assert ("healthy", ()) == (verdict.status, verdict.culprits)


def test_a_healthy_sentence_states_the_coverage(synthetic):
    sentence = diagnose(synthetic().run()).verdict.sentence

    assert sentence == (
        "Healthy: no rank holds the run back. Seen: 235 steps of 4 ranks after warm-up, 100% of"
        " the expected step times. A rank that became slower by 1.06x for half of it would have"
        " been noticed (emulated devices, simulated GPU telemetry)."
    )


def test_identical_ranks_are_silent(synthetic):
    run = synthetic(noise=0.0, spikes=False, telemetry=False).run()
    own = run.windows.groupby("from_step")["own_seconds"].transform("first")
    run.windows["own_seconds"] = own
    found = [f for f in diagnose(run).findings if f.kind == "slow"]

    assert [] == found


def test_a_uniform_slowdown_blames_no_node(synthetic):
    verdict = diagnose(synthetic(uniform=(100, 1.4)).run()).verdict

    assert ("degraded", ()) == (verdict.status, verdict.culprits)
    assert verdict.sentence.startswith("Slower, and no node is to blame: ")
    assert ["uniform"] == [each["kind"] for each in verdict.structure]
    assert "all ranks by the same ratio" in verdict.sentence


def congested(run, share, seed=7):
    """The run with a network that is slow now and then: steps tell little of what is own."""
    steps = run.windows["from_step"].to_numpy()
    usual = float(run.windows["wall_seconds"].median())
    wander = np.random.default_rng(seed).normal(size=steps.max() + 1)
    for step in range(1, len(wander)):
        wander[step] += 0.95 * wander[step - 1]
    longer = usual * share * np.abs(wander)[steps]
    more = {name: run.windows[name] + longer for name in ("wall_seconds", "collective_seconds")}
    return dataclasses.replace(run, windows=run.windows.assign(**more))


@pytest.mark.parametrize("seed", range(3))
def test_a_uniform_slowdown_is_told_where_steps_are_noisier_than_own_times(synthetic, seed):
    verdict = diagnose(congested(synthetic(seed=seed, uniform=(120, 1.2)).run(), 0.05)).verdict

    assert ("degraded", ()) == (verdict.status, verdict.culprits)
    assert ["uniform"] == [each["kind"] for each in verdict.structure]
    assert verdict.sentence.startswith("Slower, and no node is to blame: ")


@pytest.mark.parametrize("seed", range(3))
def test_a_noisy_run_without_a_slowdown_is_no_slower_one(synthetic, seed):
    verdict = diagnose(congested(synthetic(seed=seed).run(), 0.05)).verdict

    assert ("healthy", (), ()) == (verdict.status, verdict.culprits, verdict.structure)


def test_own_times_that_rose_in_all_ranks_but_one_are_no_uniform_slowdown(synthetic):
    run = synthetic(uniform=(120, 1.2)).run()
    same = (run.windows["rank"] == 2) & (run.windows["from_step"] >= 120)
    run.windows.loc[same, "own_seconds"] /= 1.2

    assert not diagnose(congested(run, 0.05)).verdict.structure


def slower_transfers(run, since, seconds):
    """The run with transfers that take longer from a step on."""
    later = run.windows["from_step"] >= since
    names = ("wall_seconds", "collective_seconds", "grad_sync_seconds")
    longer = {name: run.windows[name] + seconds * later for name in names}
    return dataclasses.replace(run, windows=run.windows.assign(**longer))


@pytest.mark.parametrize("own_since", [120, 150])
def test_own_times_that_rose_a_little_do_not_hide_a_network_that_doubled_steps(
    synthetic, own_since
):
    run = synthetic(telemetry=False, uniform=(own_since, 1.12)).run()
    verdict = diagnose(slower_transfers(run, 120, 0.045)).verdict

    assert ("unknown", ()) == (verdict.status, verdict.structure)
    assert "it is the network" in verdict.sentence


def test_a_run_that_is_faster_for_its_work_is_no_slower_one(synthetic):
    run = slower_transfers(synthetic(telemetry=False).run(), 0, 0.06)
    later = run.windows["from_step"] >= 120
    longer = run.windows["own_seconds"] * (1.4 * 1.15 - 1) * later
    more = {name: run.windows[name] + longer for name in ("own_seconds", "wall_seconds")}
    run.windows.loc[later, "flops"] *= 1.4
    verdict = diagnose(dataclasses.replace(run, windows=run.windows.assign(**more))).verdict

    assert ("healthy", ()) == (verdict.status, verdict.structure)


@pytest.mark.parametrize("seed", range(3))
def test_ranks_that_become_slow_one_after_another_are_not_all_alike(synthetic, fault, seed):
    faults = [fault("compute", rank, 1.3, 60 + 30 * rank) for rank in range(4)]

    assert not diagnose(synthetic(seed=seed, faults=faults).run()).verdict.structure


def test_own_times_that_rose_while_steps_took_no_longer_are_no_slowdown(synthetic):
    run = synthetic(telemetry=False).run()
    later = run.windows["from_step"] >= 120
    run.windows.loc[later, "own_seconds"] *= 1.12
    run.windows.loc[later, "collective_seconds"] -= 0.12 / 1.12 * run.windows.own_seconds[later]

    assert not diagnose(run).verdict.structure


@pytest.mark.parametrize(
    ("work", "status"), [(1.0, "degraded"), (1.4, "healthy"), (0.5, "degraded")]
)
def test_twice_the_work_in_twice_the_time_is_no_slowdown(synthetic, work, status):
    run = synthetic(uniform=(100, 1.4)).run()
    later = run.windows["from_step"] >= 100
    run.windows.loc[later, "flops"] *= work

    assert status == diagnose(run).verdict.status


def test_half_the_work_in_more_than_half_the_time_is_no_slowdown(synthetic):
    run = synthetic().run()
    run.windows.loc[run.windows["from_step"] >= 100, "flops"] *= 0.5

    assert "healthy" == diagnose(run).verdict.status


def test_one_rank_alone_is_unknown(synthetic):
    verdict = diagnose(synthetic(world=1).run()).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)


def test_one_step_is_unknown(synthetic):
    verdict = diagnose(synthetic(steps=1).run()).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)


def test_no_step_at_all_is_unknown(synthetic):
    run = synthetic(steps=1).run()
    verdict = diagnose(dataclasses.replace(run, windows=run.windows[:0])).verdict

    assert ("unknown", None, 0.0) == (verdict.status, verdict.slowdown, verdict.coverage)


def test_a_rank_that_never_answered_is_unknown_and_not_healthy(synthetic):
    run = synthetic().run()
    heard = run.windows[run.windows["rank"] != 3]
    verdict = diagnose(dataclasses.replace(run, windows=heard)).verdict

    assert ("unknown", 0.75) == (verdict.status, verdict.coverage)
    assert "rank 3 reported no step times" in verdict.sentence


def test_what_the_launcher_was_told_to_inject_is_not_read(synthetic):
    run = synthetic().run()
    run.meta["spec"] = {"faults": [{"kind": "thermal", "rank": 2, "from_step": 50}]}

    assert "healthy" == diagnose(run).verdict.status


def test_a_run_too_noisy_to_notice_a_slow_rank_is_not_called_healthy(synthetic):
    verdict = diagnose(synthetic(noise=0.6, steps=60, spikes=False).run()).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "would have been noticed" in verdict.sentence


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize("noise", [0.02, 0.08])
def test_a_slowdown_that_would_be_noticed_is_noticed(synthetic, fault, noise):
    quiet = align(synthetic(noise=noise).run())
    noticed = smallest_noticed(quiet)
    assert noticed is not None
    named = [
        diagnose(
            synthetic(noise=noise, seed=seed, faults=[fault("compute", 1, noticed, 120)]).run()
        ).verdict.culprits
        for seed in range(10)
    ]

    assert 8 <= sum(1 for culprits in named if [one.rank for one in culprits] == [1])
