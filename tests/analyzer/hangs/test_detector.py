"""Ranks that stop: who is missing from which collective, and in what state."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.hangs.detector import hang
from lockstep.analyzer.hangs.last_seen import died_first, out_of_sight
from lockstep.analyzer.hangs.onset import group_waits, since
from lockstep.analyzer.hangs.run_end import ended
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.draw import drawn
from lockstep.evaluation.synth.fleet import Defect, Fault, SyntheticFleet
from lockstep.evaluation.synth.whole import labelled
from tests.analyzer.stages import verdict_of

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


SEEN = {
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
"""The last scrape of a real run (dp 2, pp 4): rank 6 was killed, rank 4 waits for it, without an
open operation, as it looks for a receive that it posted ahead."""
SENT_AHEAD = {
    'lockstep_train_enqueued_sequence{group="pp"}': [
        1235, 1238, 2096, 2107, 2093, 2107, 1231, 1238,
    ],
}  # fmt: skip
"""The same, but rank 6 sent something ahead."""
ALIVE = [NAN] * 8


@pytest.fixture
def pipeline(synthetic):
    """`pipeline(down_since=seconds after the last step, also={key: values})`."""

    def grid_of(down_since, also=()):
        run = synthetic(world=8, telemetry=False, outcome=None).run()
        layout = [dataclasses.replace(i, pp=i.rank // 2, dp=i.rank % 2, tp=0) for i in run.ranks]
        grid = align(dataclasses.replace(run, ranks=tuple(layout)))
        last = {key: np.array(values, dtype=float) for key, values in (SEEN | dict(also)).items()}
        end = grid.end.max()
        # An operation that closed long ago was last seen then.
        closed = {key: ("open" in key) & (values < 1.0) for key, values in last.items()}
        return dataclasses.replace(
            grid,
            last=last,
            last_time={key: np.where(old, end - 9.0, end + 4.0) for key, old in closed.items()},
            scraped_until=np.full(8, end + 4.0),
            down_since=end + np.array(down_since),
        )

    return grid_of


def _verdict(grid):
    return verdict_of(grid, hang(grid))


def _told(grid):
    return [(one.rank, one.details["state"]) for one in hang(grid)]


def _down(rank, seconds=1.2, others=4.0):
    return np.where(np.arange(8) == rank, seconds, others)


def test_in_a_pipeline_the_rank_that_everybody_waits_for_in_the_end_is_named(pipeline):
    found = hang(pipeline(_down(6)))

    assert [6] == [finding.rank for finding in found]
    assert "rank 4 waits for rank 6, so that rank 5 waits" in found[0].text
    assert [4] == found[0].details["missing_ranks"]


def test_a_culprit_that_is_missing_from_nothing_is_told_with_the_chain_to_it(pipeline):
    verdict = _verdict(pipeline(_down(6)))

    assert (
        "its process is gone. Rank 4 waits for rank 6, so that rank 5 waits in"
        " dp-all-reduce number 124 of group dp. Confidence in the place"
        " high (0.99), in the cause high (0.99)."
    ) in verdict.sentence
    assert [
        (4, "waits for rank 6, and is missing from dp-all-reduce number 124 of group dp therefore"),
        (5, "waits in dp-all-reduce for rank 4, which never arrived"),
    ] == [(one.rank, one.why) for one in verdict.rejected]


def test_a_rank_that_died_is_named_whatever_it_sent_ahead(pipeline):
    assert [(6, "dead")] == _told(pipeline(_down(6), SENT_AHEAD))
    assert [(6, "dead")] == _told(pipeline(_down(6, others=NAN), SENT_AHEAD))


def test_a_stuck_rank_that_sent_nothing_ahead_is_named_for_certain(pipeline):
    verdict = _verdict(pipeline(ALIVE))

    assert [(6, "unknown", True)] == [
        (c.rank, c.cause, c.confidence > 0.9) for c in verdict.culprits
    ]


def test_of_ranks_that_may_all_wait_none_is_named_with_confidence(pipeline):
    verdict = _verdict(pipeline(ALIVE, SENT_AHEAD))

    assert {4, 6} == {c.rank for c in verdict.culprits}
    assert all(0.4 < c.place_confidence <= 0.5 for c in verdict.culprits)
    assert "Rank 6 (node-6, GPU 0) may have stopped the run at step 240" in verdict.sentence
    assert (
        "and which of ranks 4, 6 began it is unknown. Confidence in the place low (0.49);"
        " if it is this one, that no reported data explain it"
    ) in verdict.sentence
    assert [5] == [one.rank for one in verdict.rejected]


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        ("lockstep_train_steps_total", [123, 123, 123, 123, 123, 123, 122, 123]),
        ("lockstep_train_progress_age_seconds", [4, 4, 4, 4, 4, 4, 6.5, 4]),
    ],
)
def test_of_ranks_that_may_all_wait_the_one_furthest_behind_is_named(pipeline, metric, values):
    verdict = _verdict(pipeline(ALIVE, SENT_AHEAD | {metric: values}))

    assert [(6, True)] == [(c.rank, c.confidence > 0.9) for c in verdict.culprits]


def test_progress_that_ended_within_one_reading_tells_nothing(pipeline):
    age = {"lockstep_train_progress_age_seconds": [4, 4, 4, 4, 4, 4, 4.9, 4]}

    assert {4, 6} == {rank for rank, _ in _told(pipeline(ALIVE, SENT_AHEAD | age))}


def test_a_frozen_rank_is_named_wherever_it_is(pipeline):
    heartbeat = {"lockstep_train_heartbeat_age_seconds": [0, 0, 0, 0, 0, 0, 0, 4.0]}

    assert [(7, "frozen")] == _told(pipeline(ALIVE, SENT_AHEAD | heartbeat))


def test_the_operation_is_told_where_the_frozen_rank_was_the_first_in_it(pipeline):
    """Nobody waits there as long as it does."""
    age = 'lockstep_train_open_operation_age_seconds{group="dp",op="dp-all-reduce"}'
    arrived = 'lockstep_train_enqueued_sequence{group="dp"}'
    also = {
        arrived: [246, 248, 123, 124, 124, 124, 246, 248],
        age: [0, 3.57, 0, 3.63, 3.2, 3.85, 0, 3.69],
        "lockstep_train_heartbeat_age_seconds": [0, 0, 0, 0, 0, 4.0, 0, 0],
    }
    (found,) = hang(pipeline(ALIVE, SENT_AHEAD | also))

    assert (5, "frozen") == (found.rank, found.details["state"])
    assert ([5], [4]) == (found.details["missing_ranks"], found.details["waiting_ranks"])
    assert "dp-all-reduce" == found.details["op"]


def test_one_that_sent_ahead_and_computes_on_does_not_hide_since_when_the_others_wait(pipeline):
    """Of rank 4 it is not known since when it is in the exchange, which it began."""
    arrived = 'lockstep_train_enqueued_sequence{group="dp"}'
    grid = pipeline(ALIVE, {arrived: [246, 248, 123, 124, 124, 124, 246, 248]})

    assert np.isfinite(since(tuple(group_waits(grid, ended(grid)))))


def test_if_everybody_waits_it_cannot_be_told_for_whom(pipeline):
    ages = {
        'lockstep_train_open_operation_age_seconds{group="pp",op="backward-recv"}': [
            NAN, NAN, NAN, NAN, 3.9, NAN, 3.8, NAN,
        ]
    }  # fmt: skip
    found = hang(pipeline(ALIVE, SENT_AHEAD | ages))

    # Of each of these, its replica's other rank waits in the exchange of gradients.
    assert [0, 2, 4, 6] == [one.rank for one in found]
    assert all(one.details["certainty"] < 0.25 for one in found)
    assert "which of ranks 0, 2, 4, 6 began it is unknown" in found[0].text


def test_ranks_that_the_launcher_ended_after_the_stall_did_not_die_of_themselves(pipeline):
    hang = {"outcome": {"ending": "hang"}}

    assert [(6, "stuck")] == _told(pipeline([5.0] * 8))
    assert [(6, "dead")] == _told(pipeline([4.0] * 8))
    assert [(6, "stuck")] == _told(dataclasses.replace(pipeline([4.0] * 8), meta=hang))


def test_a_rank_that_was_gone_long_before_the_launcher_ended_the_hang_died(pipeline):
    """The launcher ended the others by a signal: they said nothing more."""
    said = {'lockstep_rank_last_state{state="running"}': [1.0] * 8}
    grid = pipeline(_down(6, others=30.0), said)

    assert [(6, "dead")] == _told(dataclasses.replace(grid, meta={"outcome": {"ending": "hang"}}))


@pytest.mark.parametrize("said", ["failed", "running", "stopped"])
def test_who_stands_still_is_named_once_a_watchdog_has_ended_all_others(pipeline, said):
    """As NCCL's: those who wait end themselves with an error, and who they waited for goes on."""
    ended = np.where(np.arange(8) == 6, NAN, 100.0)
    last = {f'lockstep_rank_last_state{{state="{said}"}}': np.where(np.isnan(ended), NAN, 1.0),
            "lockstep_train_heartbeat_age_seconds": np.full(8, 0.3)}  # fmt: skip
    grid = pipeline(ended, last)
    at = {key: np.where(np.isnan(ended), 104.0, 99.0) + grid.end.max() for key in grid.last}
    still = {key: np.where(values >= 1.0, values + 95.0, values)
             for key, values in grid.last.items() if "open_operation" in key}  # fmt: skip
    grid = dataclasses.replace(
        grid, last=grid.last | still, last_time=grid.last_time | at,
        scraped_until=grid.scraped_until + 100.0,
    )  # fmt: skip
    (found,) = hang(grid)

    assert (6, "stuck") == (found.rank, found.details["state"])
    assert found.details["certainty"] > 0.9


def test_who_works_to_the_end_of_its_step_did_not_go_on_without_the_rank_that_died(pipeline):
    """Progress of the others ended 3 s after the last step, and rank 6 was gone at 1.2 s."""
    age = {"lockstep_train_progress_age_seconds": np.where(np.arange(8) == 6, NAN, 1.0)}
    grid = pipeline(_down(6, others=NAN), age)
    slow = {"wall": np.full_like(grid.time["wall"], 5.0)}
    long = dataclasses.replace(grid, time=grid.time | slow)
    (found,) = hang(long)

    assert (6, "dead") == (found.rank, found.details["state"])
    assert found.details["certainty"] > 0.6


@pytest.mark.parametrize(("alive", "first"), [(1.4, True), (0.9, False), (1.2, True)])
def test_of_two_that_died_within_a_second_scrapes_tell_who_was_first(pipeline, alive, first):
    """Rank 6 was gone at 1.2 s, rank 3 at 1.9 s and there at `alive`."""
    grid = pipeline(np.where(np.arange(8) == 3, 1.9, _down(6)))
    beat = "lockstep_train_heartbeat_age_seconds"
    when = grid.end.max() + np.where(np.arange(8) == 3, alive, np.where(_down(6) < 4, 0.7, 3.5))
    told = dataclasses.replace(
        grid, last=grid.last | {beat: np.full(8, 0.3)}, last_time=grid.last_time | {beat: when}
    )

    assert [6] * first == np.flatnonzero(died_first(told)).tolist()


def test_nobody_died_first_where_all_went_together_or_nobody_looked(pipeline):
    for down in ([4.0] * 8, ALIVE, [1.0, *[1.4] * 7]):
        assert not died_first(pipeline(down)).any()


@pytest.mark.sweep(sample=4)
@pytest.mark.parametrize(
    ("step_seconds", "from_step"),
    [(0.5, step) for step in (300, 305, 311, 317, 328, 329, 330)]
    + [(9.0, step) for step in (70, 71, 72, 73)],
)
def test_a_rank_that_froze_anywhere_between_two_scrapes_is_named(step_seconds, from_step):
    fault = Fault(Cause.FREEZE, "stop", place=3, factor=float("nan"), from_step=from_step)
    steps = round(200 / step_seconds) + 80
    fleet = SyntheticFleet(dp=8, steps=steps, step_seconds=step_seconds, faults=(fault,), seed=5)
    verdict = diagnose(labelled(fleet).run).verdict

    assert [(3, "freeze")] == [(one.rank, one.cause) for one in verdict.culprits]


@pytest.mark.parametrize(("step_seconds", "from_step"), [(2.0, 48), (1.4, 55)])
def test_the_last_window_may_hold_one_step_and_end_after_others_stood_still(
    step_seconds, from_step
):
    """By that window alone all would have stood still before the last step ended."""
    fault = Fault(Cause.FREEZE, "stop", place=5, factor=float("nan"), from_step=from_step)
    fleet = SyntheticFleet(dp=32, steps=70, step_seconds=step_seconds, faults=(fault,), seed=5)
    verdict = diagnose(labelled(fleet).run).verdict

    assert [(5, "freeze")] == [(one.rank, one.cause) for one in verdict.culprits]


def test_a_freeze_is_found_where_nodes_are_scraped_seconds_apart():
    # Of this run the last window begins on one node before, on the other after the step it holds.
    verdict = diagnose(labelled(drawn(234, injected=True)).run).verdict

    assert [(4, "freeze")] == [(each.rank, each.cause) for each in verdict.culprits]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_node_that_fell_silent_while_the_run_went_on_is_not_who_stopped_it(seed):
    """Its sequences are as old as its last scrape: that others are further says nothing of it."""
    crash = Fault(Cause.CRASH, "exit", place=7, factor=NAN, from_step=400)
    fleet = SyntheticFleet(dp=2, pp=2, tp=8, steps=800, step_seconds=1.2, faults=(crash,),
                           defects=(Defect.SILENT,), seed=seed)  # fmt: skip
    run = labelled(fleet).run
    hidden = np.flatnonzero(out_of_sight(align(run)))
    verdict = diagnose(run).verdict

    assert hidden.size
    assert 7 not in hidden
    assert [(7, "crash")] == [(one.rank, one.cause) for one in verdict.culprits]


@pytest.mark.parametrize("cause", [Cause.FREEZE, Cause.CRASH])
@pytest.mark.parametrize("layout", [(4, 1, 8), (2, 2, 8), (2, 4, 4)])
def test_who_stopped_the_run_is_not_cleared_by_a_node_that_fell_silent_before(layout, cause):
    """Nobody who is seen stopped it: then it is the node that all wait for and nobody saw."""
    dp, pp, tp = layout
    form = "stop" if cause is Cause.FREEZE else "exit"
    stopped = Fault(cause, form, place=20, factor=NAN, from_step=400)
    fleet = SyntheticFleet(dp=dp, pp=pp, tp=tp, steps=800, step_seconds=1.2, faults=(stopped,),
                           seed=3)  # fmt: skip
    run = labelled(fleet).run
    time = run.samples["time"]
    cut = time.min() + 0.55 * (time.max() - time.min())
    seen = run.samples[(run.samples["node"] != "node-2") | (time < cut)]
    verdict = diagnose(dataclasses.replace(run, samples=seen)).verdict

    assert "degraded" == verdict.status
    assert ["node-2"] == [one.node for one in verdict.culprits]


@pytest.mark.parametrize("layout", [(4, 1, 8), (2, 2, 8), (2, 4, 4)])
def test_a_stuck_rank_that_is_seen_is_told_from_a_node_that_fell_silent(layout):
    """Its process lives and it waits in nothing: had the others stopped the run, it would wait."""
    dp, pp, tp = layout
    stuck = Fault(Cause.FREEZE, "stop", place=3, factor=NAN, from_step=400)
    fleet = SyntheticFleet(dp=dp, pp=pp, tp=tp, steps=800, step_seconds=1.2, faults=(stuck,),
                           seed=3)  # fmt: skip
    run = labelled(fleet).run
    time, metric = run.samples["time"], run.samples["metric"]
    cut = time.min() + 0.55 * (time.max() - time.min())
    seen = (run.samples["node"] != "node-2") | (time < cut)
    beats = metric == "lockstep_train_heartbeat_age_seconds"
    alive = (metric != "lockstep_rank_up") | (run.samples["value"] > 0)
    samples = run.samples.assign(value=run.samples["value"].mask(beats, 0.3))[seen & alive]
    verdict = diagnose(dataclasses.replace(run, samples=samples)).verdict

    assert [3] == [one.rank for one in verdict.culprits]


@pytest.mark.parametrize("seconds", [-8.0, 0.0, 4.0])
def test_a_node_that_was_seen_last_as_the_run_stopped_waits_in_nothing_and_is_not_to_blame(seconds):
    """Its page is older than the wait of the others: that it was in no operation tells nothing."""
    frozen = Fault(Cause.FREEZE, "stop", place=3, factor=NAN, from_step=300)
    fleet = SyntheticFleet(dp=4, tp=8, steps=400, step_seconds=1.2, faults=(frozen,), seed=3)
    run = labelled(fleet).run
    stop = run.windows["end"].max()
    seen = (run.samples["node"] != "node-2") | (run.samples["time"] < stop + seconds)
    verdict = diagnose(dataclasses.replace(run, samples=run.samples[seen])).verdict

    assert [(3, "freeze")] == [(one.rank, one.cause) for one in verdict.culprits]


def test_who_was_gone_alone_was_first_unless_others_went_as_well(pipeline):
    """Else the one that nobody saw may have been the first, and the others went because of it."""
    grid, ranks = pipeline(_down(6, others=NAN)), np.arange(8)
    end = grid.end.max()
    until = np.where(ranks == 3, end - 600.0, end + 4.0)
    last = {
        "lockstep_train_heartbeat_age_seconds": np.full(8, 0.3),
        "lockstep_train_steps_total": np.where(ranks == 3, 0.0, 1000.0),
    }
    seen = dict.fromkeys(last, np.where(ranks == 6, end + 0.7, until))
    times = {key: np.where(ranks == 3, until, each) for key, each in grid.last_time.items()}
    told = dataclasses.replace(
        grid, scraped_until=until, last=grid.last | last, last_time=times | seen
    )
    both = dataclasses.replace(told, down_since=np.where(ranks == 5, end + 3.9, grid.down_since))

    assert [3] == np.flatnonzero(out_of_sight(told)).tolist()
    (alone,), (first,) = hang(told), hang(both)
    assert [(6, "dead"), (6, "dead")] == _told(told) + _told(both)
    assert 3 * (1.0 - alone.details["certainty"]) < 1.0 - first.details["certainty"]
