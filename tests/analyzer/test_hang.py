"""Ranks that stop: who is missing from which collective, and in what state."""

import dataclasses

import numpy as np
import pytest

from analyzer.align import align
from analyzer.attribute import diagnose
from analyzer.detectors.hang import Hang

NAN = float("nan")


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize(("kind", "seed"), [("freeze", 0), ("crash", 1), ("freeze", 2)])
def test_a_rank_that_stopped_is_named_with_the_collective(synthetic, fault, kind, seed, world):
    run = synthetic(seed=seed, world=world, faults=[fault(kind, 1, first=80)]).run()
    verdict = diagnose(run).verdict

    assert [(1, kind, "page", 80, None)] == [
        (c.rank, c.cause, c.tier, c.from_step, c.slowdown) for c in verdict.culprits
    ]
    assert {"group": "dp", "sequence": 81, "op": "dp-all-reduce", "missing_ranks": [1]} == (
        verdict.hang
    )
    assert sorted(set(range(world)) - {1}) == sorted(each.rank for each in verdict.rejected)


def test_a_frozen_rank_costs_the_time_the_others_stood_still(synthetic, fault):
    verdict = diagnose(synthetic(faults=[fault("freeze", 1, first=80)]).run()).verdict

    assert verdict.lost_gpu_hours == pytest.approx(4 * 10.2 / 3600, rel=0.05)


def test_all_ranks_gone_after_a_finished_run_is_no_hang(synthetic):
    verdict = diagnose(synthetic().run()).verdict

    assert ("healthy", None) == (verdict.status, verdict.hang)


def test_sequences_that_differ_between_scrapes_of_a_live_run_are_no_hang(synthetic):
    run = synthetic(outcome=None).run()
    live = run.samples[run.samples["time"] < run.samples["time"].max() - 1.5]
    verdict = diagnose(dataclasses.replace(run, samples=live)).verdict

    assert verdict.hang is None


def test_an_interrupted_run_is_no_crash(synthetic, fault):
    run = synthetic(faults=[fault("crash", 1, first=80)]).run()
    run.meta["outcome"] = {"ending": "interrupted", "rank": None, "reason": ""}

    assert diagnose(run).verdict.hang is None


def test_a_rank_stopped_inside_the_collective_is_told_by_its_heartbeat(synthetic, fault):
    def arrived(samples):
        mine = (samples["rank"] == 1) & (samples["metric"] == "lockstep_train_enqueued_sequence")
        peers = (samples["rank"] == 0) & (samples["metric"] == "lockstep_train_enqueued_sequence")
        samples.loc[mine, "value"] = samples.loc[peers, "value"].max()
        return samples

    run = synthetic(faults=[fault("freeze", 1, first=80)], drop=arrived).run()
    verdict = diagnose(run).verdict

    assert [(1, "freeze")] == [(c.rank, c.cause) for c in verdict.culprits]


def test_a_rank_that_is_alive_and_late_is_stuck_with_unknown_cause(synthetic, fault):
    def beating(samples):
        heartbeat = samples["metric"] == "lockstep_train_heartbeat_age_seconds"
        alive = (samples["metric"] != "lockstep_rank_up") | (samples["value"] > 0)
        return samples.assign(value=samples["value"].mask(heartbeat, 0.3))[alive]

    run = synthetic(faults=[fault("freeze", 1, first=80)], drop=beating).run()
    verdict = diagnose(run).verdict

    assert [(1, "unknown")] == [(c.rank, c.cause) for c in verdict.culprits]


def test_in_a_pipeline_the_rank_that_everybody_waits_for_in_the_end_is_named(synthetic):
    """The last scrape of a real run (dp 2, pp 4): rank 6 was killed, rank 4 waits for it."""
    run = synthetic(world=8, telemetry=False, outcome=None).run()
    layout = [dataclasses.replace(i, pp=i.rank // 2, dp=i.rank % 2, tp=0) for i in run.ranks]
    grid = align(dataclasses.replace(run, ranks=tuple(layout)))
    last = {
        'lockstep_train_completed_sequence{group="dp"}': [246, 246, 123, 123, 123, 123, 246, 246],
        'lockstep_train_enqueued_sequence{group="dp"}': [246, 248, 123, 124, 123, 124, 246, 248],
        'lockstep_train_completed_sequence{group="pp"}': [
            1233, 1238, 2096, 2107, 2092, 2107, 1230, 1238,
        ],
        'lockstep_train_enqueued_sequence{group="pp"}': [
            1235, 1238, 2096, 2107, 2093, 2107, 1230, 1238,
        ],
        'lockstep_train_open_operation_age_seconds{group="dp",op="dp-all-reduce"}': [
            0, 3.57, 0, 3.63, 0, 3.85, 0, 3.69,
        ],
        'lockstep_train_open_operation_age_seconds{group="pp",op="forward-send"}': [
            3.69, 0.03, 3.92, 0.02, 0, 0.01, NAN, NAN,
        ],
    }  # fmt: skip
    end = grid.end.max()
    when = {key: np.full(8, end + 4.0) for key in last}
    for key, values in last.items():
        # What closed long ago was last seen then.
        when[key] = np.where(np.array(values) < 1.0, end - 9.0, when[key])
    stopped = dataclasses.replace(
        grid,
        last={key: np.array(values, dtype=float) for key, values in last.items()},
        last_time=when,
        scraped_until=np.full(8, end + 4.0),
        down_since=np.where(np.arange(8) == 6, end + 1.2, end + 4.0),
    )
    found = Hang().detect(stopped)

    assert [6] == [finding.rank for finding in found]
    assert "rank 4 waits for rank 6, and for that in turn rank 5 waits" in found[0].text
    assert [4] == found[0].details["missing_ranks"]
