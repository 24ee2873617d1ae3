"""Difficulties: each does what it says and nothing else, alone as well as together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import PHASES, Cause, Phase
from lockstep.evaluation.synth.fleet import (
    LAYOUTS,
    PAUSE,
    SLOW_WRITE,
    SUITS,
    TEMPORAL,
    TOLD_BY,
    Benign,
    Difficulty,
    Fault,
    Resolution,
    Shape,
    Source,
    SyntheticFleet,
    Telling,
)
from lockstep.evaluation.synth.hard_draw import hard
from lockstep.evaluation.synth.times import times
from lockstep.evaluation.synth.untidy import clock_errors, driver_numbers
from lockstep.evaluation.synth.whole import SOURCE_METRICS, labelled, streamed

FLEET = SyntheticFleet(dp=4, pp=2, tp=2, steps=200, resolution=Resolution.STEP, seed=5)
KEYS = ["time", "node", "gpu", "rank", "metric", "labels"]


def made(*difficulties, **changed):
    return times(_fleet(*difficulties, **changed), np.random.default_rng(5))


def _fleet(*difficulties, **changed):
    return replace(FLEET, difficulties=difficulties, **changed)


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([None, *Difficulty]))
@settings(max_examples=60)
def test_whatever_is_drawn_fits_together(seed, injected, only):
    fleet = hard(seed, injected=injected, only=None if only is None else [only])

    assert repr(fleet) == repr(hard(seed, injected=injected, only=None if only is None else [only]))
    assert injected == bool(fleet.faults)
    assert only is None or (only,) == fleet.difficulties
    for rivals in (LAYOUTS, TEMPORAL):
        assert len(rivals.intersection(fleet.difficulties)) < 2
    for fault in fleet.faults:
        assert 0 <= fault.from_step < (fault.to_step or fleet.steps) <= fleet.steps
        assert only not in SUITS or fault.cause in SUITS[only]


@pytest.mark.parametrize("difficulty", list(Difficulty))
def test_with_any_difficulty_a_step_is_all_its_phases_and_what_is_not_own_is_waiting(difficulty):
    fault = Fault(SUITS.get(difficulty, (Cause.DATA,))[0], "down", 3, 1.5, 60)
    layout = {"dp": 1, "pp": 2, "tp": 8} if difficulty in LAYOUTS else {}
    whole = made(difficulty, faults=(fault,), benign=(Benign.CHECKPOINT,), **layout)
    total = np.sum([whole.by_phase[phase] for phase in PHASES], axis=0)

    assert np.allclose(total, whole.wall[:, None])
    assert np.allclose(whole.wall[:, None] - whole.own, sum(whole.by_group.values()))
    assert min(seconds.min() for seconds in whole.by_group.values()) > -1e-9


@pytest.mark.sweep
@pytest.mark.parametrize("difficulty", list(Difficulty))
def test_a_difficulty_alone_is_seen_in_the_run(difficulty):
    """Of the first seeds that it can be drawn for; the same dice without it give another run."""
    fleet = hard(0, injected=True, only=[difficulty])
    run = labelled(fleet).run
    bare = replace(
        fleet, difficulties=(), decoys=(), lacking=(),
        faults=tuple(replace(fault, lag_seconds=0.0, ramp_seconds=0.0, faint=1.0, whole_node=False,
                             shape=Shape.CONSTANT) for fault in fleet.faults),
    )  # fmt: skip
    if difficulty in LAYOUTS:
        assert fleet.dp <= 3
    elif difficulty is Difficulty.PIPELINE_WAITS:
        assert made(difficulty).by_group["pp"].std(axis=1).max() > 0.0
    elif difficulty is Difficulty.WRITER:
        assert SLOW_WRITE == fleet.faults[0].form
    else:
        other = labelled(bare).run
        same = run.samples.equals(other.samples) and run.windows.equals(other.windows)
        assert not same


def test_a_bad_nvlink_lengthens_what_its_tensor_group_exchanges_and_nobodys_own_time():
    fault = Fault(Cause.NVLINK, "errors", 5, 1.5, 100)
    slow = made(Difficulty.TENSOR_GROUP, faults=(fault,))
    healthy = made(Difficulty.TENSOR_GROUP)
    own = (slow.own / healthy.own)[100:]
    exchanged = (slow.by_group["tp"] - healthy.by_group["tp"])[100:].mean(axis=0)

    assert np.allclose(own, 1.0)
    assert {4, 5} == set(np.flatnonzero(exchanged > 0.1).tolist())
    assert pytest.approx(1.5, abs=0.01) == slow.effects[0]


def test_who_waits_for_another_stage_waits_in_the_pipeline():
    fault = Fault(Cause.SLOW_GPU, "plain", 0, 2.0, 100)
    waits = made(Difficulty.PIPELINE_WAITS, faults=(fault,)).by_group["pp"][100:].mean(axis=0)
    pp, dp = np.arange(16) // 8, np.arange(16) // 2 % 4

    assert waits[(pp == 1) & (dp == 0)].min() > 1.5 * waits[(pp == 0) & (dp == 0)].max()


def test_a_slow_writer_is_slow_in_checkpoints_and_nowhere_else():
    fault = Fault(Cause.CHECKPOINT, SLOW_WRITE, 3, 5.0, 50)
    run = made(Difficulty.WRITER, faults=(fault,), benign=(Benign.CHECKPOINT,))
    late = run.own_by_phase[Phase.CHECKPOINT][50:]
    others = np.delete(late, 3, axis=1).mean(axis=1)

    assert (late[:, 3][others > 0] > 1.3 * others[others > 0]).all()
    assert np.all(late[:, 3][others == 0] == 0.0)


def test_after_a_pause_the_run_goes_on_and_the_heartbeat_was_old_in_it():
    fault = Fault(Cause.FREEZE, PAUSE, 3, 30.0, 60, shape=Shape.BURSTS)
    run = labelled(_fleet(Difficulty.BURSTS, faults=(fault,))).run
    beats = run.samples[run.samples["metric"] == metrics.TRAIN_HEARTBEAT_AGE.name]

    assert FLEET.steps == run.windows["to_step"].max()
    assert beats[beats["rank"] == 3]["value"].max() > 15.0
    assert beats[beats["rank"] != 3]["value"].max() <= 1.0


def test_a_node_with_a_wrong_clock_has_all_its_moments_wrong_by_as_much():
    fleet = _fleet(Difficulty.CLOCKS)
    wrong, right = labelled(fleet).run, labelled(_fleet()).run
    ahead = clock_errors(fleet)

    for one, other in ((wrong.windows["start"], right.windows["start"]),):
        assert {0, 1} == set(np.unique((one - other).round(3), return_inverse=True)[1])
    apart = (wrong.samples["time"] - right.samples["time"]).groupby(wrong.samples["node"]).mean()
    assert pytest.approx(ahead.tolist()) == apart.tolist()
    assert np.abs(ahead).max() > 10.0


def test_where_the_driver_numbers_gpus_in_its_own_way_only_the_uuid_tells():
    fault = Fault(Cause.THERMAL, "hw", 5, 1.5, 100)
    fleet = _fleet(Difficulty.GPU_NUMBERS, faults=(fault,))
    run = labelled(fleet).run
    heat = run.samples[run.samples["metric"] == metrics.GPU_TEMPERATURE.name]
    hottest = heat.loc[heat["value"].idxmax()]

    assert (run.ranks[5].node, run.ranks[5].gpu) == (hottest["node"], hottest["gpu"])
    assert not np.array_equal(driver_numbers(fleet), np.arange(16) % 8)


def test_a_source_that_a_node_lacks_tells_nothing_and_whoever_needs_it_is_unknown():
    fault = Fault(Cause.THERMAL, "hw", 5, 1.5, 100, telling=Telling.PARTLY)
    fleet = _fleet(Difficulty.SOURCES, faults=(fault,), lacking=((0, Source.GPU_STATE),))
    one = labelled(fleet)
    told = one.run.samples["metric"].str.startswith(SOURCE_METRICS[Source.GPU_STATE])

    assert {"node-1"} == set(one.run.samples[told]["node"])
    assert "unknown" == one.truth[0]["cause"]
    assert set(TOLD_BY.values()) == set(Source)


@pytest.mark.parametrize("source", list(Source))
def test_every_source_tells_something(source):
    told = labelled(FLEET).run.samples["metric"]
    xid = source is Source.XID  # no series until the first event

    assert xid or told.str.startswith(SOURCE_METRICS[source]).any()


def test_a_scrape_that_fails_leaves_up_at_zero_and_nothing_else():
    run = labelled(replace(_fleet(Difficulty.SCRAPES), steps=900)).run
    up = run.samples[run.samples["metric"] == "up"]
    failed = up[up["value"] == 0.0]
    beside = run.samples.merge(failed[["time", "node"]])

    assert 0.05 < len(failed) / len(up) < 0.5
    assert {"up"} == set(beside["metric"])


def test_a_decoy_is_told_by_counters_and_is_nobodys_slowness():
    decoy = Fault(Cause.ECC, "corrected", 2, 1.0, 20, faint=0.5)
    fleet = _fleet(Difficulty.DECOYS, decoys=(decoy,))
    run = labelled(fleet)
    errors = run.run.samples[run.run.samples["metric"] == metrics.GPU_ECC_ERRORS.name]
    risen = errors[errors["labels"].str.contains("volatile")].groupby("gpu")["value"].max()

    assert () == run.truth
    assert np.array_equal(made(Difficulty.DECOYS, decoys=(decoy,)).own, made().own)
    assert 2 == risen.idxmax()


def test_longer_sequences_are_told_in_tokens_and_cost_more_than_they_are():
    run = made(Difficulty.UNEVEN)
    work, own = run.work[10:], run.own[10:]
    slope = np.polyfit(np.log(work.ravel()), np.log(own.ravel()), 1)[0]

    assert 1.0 < slope < 1.4
    assert np.allclose(work[:, 0], work[:, 1])


@pytest.mark.parametrize("only", [None, *Difficulty])
@pytest.mark.sweep(sample=2)
def test_a_run_in_parts_is_the_same_run(only):
    fleet = hard(38, injected=True, only=None if only is None else [only])
    whole, parts = labelled(fleet), streamed(fleet)
    keys = KEYS
    samples, wanted = (
        frame.sort_values(keys).reset_index(drop=True)[[*keys, "value"]]
        for frame in (pd.concat(parts.samples, ignore_index=True), whole.run.samples)
    )

    pd.testing.assert_frame_equal(wanted, samples)
    assert whole.truth == parts.truth or "nan" in str(whole.truth)
    assert fleet.world == len(set(pd.concat(parts.steps)["rank"])) == len(parts.ranks)


def test_every_difficulty_is_explained():
    told = Path("docs/method/scoring.md").read_text("utf-8")

    assert set() == {each for each in Difficulty if f"| `{each}` |" not in told}
