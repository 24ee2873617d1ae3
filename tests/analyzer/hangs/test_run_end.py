"""Runs that did not end as they should: never healthy, and the first to go is named."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.hangs.last_seen import stood_still
from lockstep.analyzer.hangs.run_end import unexplained
from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.report.sections.advice import actions_of
from lockstep.analyzer.shapes.run import LoadError
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.diagnose.diagnosis import exit_code

STATE, UP = "lockstep_rank_last_state", "lockstep_rank_up"
KILLED = {"ending": "crash", "ranks": [1], "reason": "killed by SIGKILL",
          "exits": [{"rank": 1, "code": -9, "seconds": 0.0},
                    {"rank": 0, "code": 1, "seconds": 0.3}]}  # fmt: skip

INTERRUPTED = {"ending": "interrupted", "ranks": [], "reason": "", "exits": []}


@pytest.fixture
def ended(synthetic):
    """`ended(states, outcome)`: four ranks, all in one collective, and all gone in the last scrape.

    As survivors of somebody else's program go within a moment after a `kill -9`.
    """

    def run_of(states=("failed", "running", "failed", "failed"), outcome=None, steps=120):
        def edited(samples):
            newest = samples.groupby("node")["time"].transform("max")
            stale = (samples["time"] >= newest) & _of_the_living(samples)
            samples = samples[(samples["metric"] != STATE) & ~stale].copy()
            last = samples["time"] >= newest[samples.index]
            arrived = samples["metric"] == "lockstep_train_enqueued_sequence"
            samples.loc[arrived & last, "value"] += 1
            samples.loc[last & (samples["metric"] == UP), "value"] = 0.0
            gone = samples[last & (samples["metric"] == UP)]
            said = gone.assign(metric=STATE, value=1.0)
            said["labels"] = [f'state="{states[rank]}"' for rank in said["rank"]]
            return pd.concat([samples, said[[states[rank] != "" for rank in said["rank"]]]])

        run = synthetic(steps=steps, drop=edited).run()
        meta = {key: each for key, each in run.meta.items() if key != "outcome"}
        return dataclasses.replace(
            run, meta=meta if outcome is None else {**meta, "outcome": outcome}
        )

    return run_of


def _of_the_living(samples):
    kept = {UP, "lockstep_train_enqueued_sequence", "lockstep_train_completed_sequence"}
    training = samples["metric"].str.startswith(("lockstep_train", "lockstep_rank"))
    return training & ~samples["metric"].isin(kept)


def _named(run):
    return [(one.rank, one.cause) for one in diagnose(run).verdict.culprits]


@pytest.mark.parametrize("states", [("running",) * 4, ("",) * 4])
def test_a_rank_that_the_launcher_saw_killed_is_named_whatever_its_page_says(ended, states):
    verdict = diagnose(ended(states, KILLED)).verdict

    assert [(1, "crash", "page")] == [(c.rank, c.cause, c.tier) for c in verdict.culprits]
    assert "it was ended by SIGKILL" in verdict.culprits[0].evidence[0].text
    assert 2 == exit_code(verdict)


def test_by_its_page_the_first_to_go_is_the_one_that_could_say_nothing(ended):
    assert [(1, "crash")] == _named(ended())
    assert [(1, "crash")] == _named(ended(("peer_lost", "running", "peer_lost", "peer_lost")))


def test_of_several_that_were_struck_at_once_none_is_named_with_confidence(ended):
    at_once = [{"rank": rank, "code": -9, "seconds": 0.0} for rank in (1, 2)]
    verdict = diagnose(ended(outcome={**KILLED, "ranks": [1, 2], "exits": at_once})).verdict

    assert {1, 2} == {one.rank for one in verdict.culprits}
    assert all(one.place_confidence < 0.7 for one in verdict.culprits)
    assert "which of ranks 1, 2 began it is unknown" in verdict.sentence


@pytest.mark.parametrize("states", [("running",) * 4, ("",) * 4, ("failed",) * 4])
@pytest.mark.parametrize("outcome", [None, {**KILLED, "ranks": [], "exits": []}])
def test_a_crash_of_which_nobody_can_be_named_is_unknown(ended, states, outcome):
    verdict = diagnose(ended(states, outcome)).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "began it is unknown" in verdict.sentence
    assert 3 == exit_code(verdict)


@pytest.mark.parametrize("outcome", [{**KILLED, "ranks": [], "exits": []}, "hang"])
def test_a_run_that_crashed_is_not_cleared_because_all_its_ranks_were_slow_alike(
    synthetic, outcome
):
    run = synthetic(uniform=(100, 1.4), outcome="finished").run()
    verdict = diagnose(dataclasses.replace(run, meta={**run.meta, "outcome": outcome})).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "which rank began it is unknown" in verdict.sentence
    assert "blame" not in verdict.sentence
    assert not any(one["kind"] == "uniform" for one in verdict.structure)
    assert 3 == exit_code(verdict)


def test_a_hang_that_its_user_ended_is_no_healthy_run(synthetic, fault):
    run = synthetic(faults=[fault("freeze", 1, first=80)]).run()
    verdict = diagnose(dataclasses.replace(run, meta={**run.meta, "outcome": INTERRUPTED})).verdict

    assert [(1, "freeze")] == [(one.rank, one.cause) for one in verdict.culprits]


@pytest.mark.parametrize("seed", range(3))
def test_a_healthy_run_that_its_user_ended_stays_healthy(ended, synthetic, seed):
    run = synthetic(seed=seed, outcome=INTERRUPTED).run()

    assert "healthy" == diagnose(run).verdict.status
    for states in (("running",) * 4, ("failed", "running", "peer_lost", "failed")):
        assert "healthy" == diagnose(ended(states, INTERRUPTED)).verdict.status


@pytest.mark.parametrize(
    "states",
    [("stopped",) * 4, ("stopped", "stopped", "peer_lost", "peer_lost")],
)
def test_a_run_whose_pods_somebody_deleted_accuses_nobody(ended, states):
    verdict = diagnose(ended(states, None)).verdict

    assert ("healthy", ()) == (verdict.status, verdict.culprits)


def test_who_said_nothing_where_the_others_were_ended_from_outside_went_first(ended):
    assert [(1, "crash")] == _named(ended(("stopped", "running", "stopped", "peer_lost")))


def test_who_stood_still_after_another_was_gone_was_perhaps_ended_by_the_user(synthetic, fault):
    run = synthetic(faults=[fault("freeze", 1, first=80)]).run()
    samples = run.samples
    gone = (samples["rank"] == 1) & (samples["time"] > run.windows["end"].max() + 1.0)
    samples = samples[~gone | ~_of_the_living(samples)]
    down = gone[samples.index] & (samples["metric"] == UP)
    samples = samples.assign(value=samples["value"].mask(down, 0.0))
    seen = dataclasses.replace(run, samples=samples, meta={**run.meta, "outcome": INTERRUPTED})
    verdict = diagnose(seen).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "ended by its user" in verdict.sentence


def test_a_run_whose_ranks_all_said_that_they_had_finished_is_as_healthy_as_before(ended):
    run = ended(("finished",) * 4)

    assert unexplained(align(run)) is None
    assert "healthy" == diagnose(run).verdict.status


@pytest.mark.parametrize("steps", [1, 3, 8])
def test_a_run_that_was_killed_in_its_warm_up_is_not_healthy(ended, steps):
    run = ended(outcome=KILLED, steps=steps)

    assert [(1, "crash")] == _named(run)


def test_a_rank_that_left_the_others_in_a_collective_is_named_before_one_that_gave_up(
    synthetic, fault
):
    """As NCCL's watchdog ends the one that waits: by a code of its own, never by a signal."""
    run = synthetic(faults=[fault("freeze", 1, first=80)]).run()
    aborted = {"ending": "crash", "ranks": [0], "reason": "exited with code 1",
               "exits": [{"rank": 0, "code": -6, "seconds": 0.0}]}  # fmt: skip
    run.meta["outcome"] = aborted

    assert [1] == [one.rank for one in diagnose(run).verdict.culprits]


def test_series_that_ended_while_all_ranks_were_there_are_no_clean_end(synthetic):
    run = synthetic(outcome=None).run()
    there = run.samples[run.samples["time"] < run.samples["time"].max() - 1.5]
    live = dataclasses.replace(run, samples=there)

    assert unexplained(align(live)) is None
    assert "how it ended is unknown" in unexplained(
        align(dataclasses.replace(live, meta={**run.meta, "vanished": True}))
    )


@pytest.mark.parametrize(("failed", "known"), [(3, True), (8, False)])
def test_a_run_of_which_nothing_is_told_any_more_is_said_to_stand_still_perhaps(
    synthetic, failed, known
):
    run = synthetic(outcome=None).run()
    newest = run.samples["time"].max()
    seen = run.samples[run.samples["time"] < newest - 1.5]
    ranks = [info.node for info in run.ranks]
    tried = [
        {"time": seen["time"].max() + 1.0 + each, "node": node, "metric": "up", "labels": "",
         "value": 0.0}
        for each in range(failed) for node in sorted(set(ranks))
    ]  # fmt: skip
    up = pd.DataFrame(tried).reindex(columns=seen.columns).astype(seen.dtypes)
    grid = align(dataclasses.replace(run, samples=pd.concat([seen, up])))

    told = unexplained(grid)
    last = f"the last reported step is {int(grid.to_step.max()) - 1}"

    assert known is (told is None)
    assert known or ("stands still" in told and last in told)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(20))
def test_whatever_of_its_end_is_not_known_a_killed_run_is_never_healthy(ended, seed):
    dice = np.random.default_rng(seed)
    states = ["failed", "running", "peer_lost", "failed"]
    for rank in range(4):
        states[rank] = dice.choice(["", states[rank]])
    outcome = dice.choice([None, {**KILLED, "ranks": []}, {"ending": "crash"}, "crash", KILLED])
    verdict = diagnose(ended(tuple(states), outcome)).verdict

    assert "healthy" != verdict.status
    assert all(one.rank == 1 or one.place_confidence < 0.7 for one in verdict.culprits)


def test_ranks_that_the_launcher_ended_later_did_not_die_silently_with_the_first(ended):
    run = ended(("peer_lost", "running", "running", "peer_lost"))
    samples = run.samples.copy()
    late = (samples["rank"] == 1) & (samples["time"] > samples["time"].max() - 3.0)
    samples.loc[late & (samples["metric"] == UP), "value"] = 0.0
    samples = samples[~late | (samples["metric"].isin([UP, STATE]))]

    assert [(1, "crash")] == _named(dataclasses.replace(run, samples=samples))


@pytest.fixture
def one_gone(synthetic):
    """`one_gone(state)`: nobody tells how it ends; rank 1 is gone in the last scrape, just now."""

    def run_of(states):
        run = synthetic(outcome=None).run()
        samples = run.samples
        samples = samples[samples["time"] < samples["time"].max() - 1.0]
        newest = samples.groupby("node")["time"].transform("max") == samples["time"]
        gone = newest & samples["rank"].isin(states)
        up = gone & (samples["metric"] == UP)
        said = samples[up].assign(metric=STATE, value=1.0)
        said["labels"] = [f'state="{states[rank]}"' for rank in said["rank"]]
        samples = samples.assign(value=samples["value"].mask(up, 0.0))
        samples = samples[~gone | ~_of_the_living(samples) | (samples["metric"] == UP)]
        return dataclasses.replace(run, samples=pd.concat([samples, said]), meta={})

    return run_of


def test_the_first_to_go_is_not_accused_while_nobody_met_an_error(one_gone):
    verdict = diagnose(one_gone({1: "running"})).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "rank 1 is gone without a clean end" in verdict.sentence


@pytest.mark.parametrize("state", ["failed", "peer_lost"])
def test_the_first_to_go_is_named_where_another_one_met_an_error(one_gone, state):
    run = one_gone({1: "running", 2: state})
    verdict = diagnose(run).verdict

    # Rank 0 was scraped last a moment before: it may be gone too.
    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "rank 0 may have gone before, as it was not seen alive since" in verdict.sentence

    there = run.samples[run.samples["node"] == "node-0"]
    again = there[there["time"] == there["time"].max()]
    later = pd.concat([run.samples, again.assign(time=again["time"] + 1.0)])
    assert [(1, "crash")] == _named(dataclasses.replace(run, samples=later))


@pytest.fixture
def node_lost(synthetic):
    """`node_lost(seen)`: nodes of two ranks; node-1's see an error and go, one after the other.

    node-0 is not scraped any more; `seen` is how many seconds after the first of them was gone it
    was seen last.
    """

    def run_of(seen, said=("failed", "running"), apart=2.0):
        run = synthetic(ranks_per_node=2, outcome=None).run()
        samples = run.samples
        there = samples[samples["node"] == "node-1"]
        gone = float(there["time"].max()) - 2.0 - apart
        kept = samples[(samples["node"] != "node-0") | (samples["time"] <= gone)]
        last = kept[kept["node"] == "node-0"]
        last = last[last["time"] == last["time"].max()].assign(time=gone + seen)
        samples = pd.concat([kept[(kept["node"] != "node-0") | (kept["time"] < gone - 1.0)], last])
        for rank, since, state in ((2, gone, said[0]), (3, gone + apart, said[1])):
            late = (samples["rank"] == rank) & (samples["time"] >= since - 0.01)
            samples = samples[~late | ~_of_the_living(samples) | (samples["metric"] == UP)]
            up = (samples["rank"] == rank) & (samples["time"] >= since - 0.01)
            up &= samples["metric"] == UP
            samples = samples.assign(value=samples["value"].mask(up, 0.0))
            word = samples[up].assign(metric=STATE, value=1.0, labels=f'state="{state}"')
            samples = pd.concat([samples, word])
        return dataclasses.replace(run, samples=samples, meta={})

    return run_of


@pytest.mark.parametrize("said", [("running", "peer_lost"), ("failed", "running"), ("failed",) * 2])
@pytest.mark.parametrize("seen", [-5.0, -0.4, 0.4, 1.5])
def test_who_lives_on_after_a_node_fell_silent_is_not_named_as_the_first_to_go(
    node_lost, seen, said
):
    verdict = diagnose(node_lost(seen, said)).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "ranks 0, 1 may have gone before, as they were not seen alive since" in verdict.sentence


@pytest.mark.parametrize("apart", [0.0, 2.0])
def test_nor_where_nothing_is_known_of_that_node_at_all(node_lost, apart):
    run = node_lost(-5.0, apart=apart)
    without = run.samples[run.samples["node"] != "node-0"]
    verdict = diagnose(dataclasses.replace(run, samples=without)).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)


def test_a_node_that_fell_silent_later_clears_nobody(node_lost):
    assert [(2, "crash")] == _named(node_lost(4.0, ("running", "peer_lost")))


def test_one_that_left_while_the_others_go_on_stopped_nothing(one_gone):
    """As an elastic run goes on with fewer ranks, or one that is needed no more ends early."""
    run = one_gone({1: "running"})
    others = run.samples[(run.samples["rank"] != 1) & run.samples["rank"].notna()]
    last = others[others["time"] == others.groupby("node")["time"].transform("max")]
    later = run.windows["end"].max() + 20.0
    up = last[last["metric"] == UP].assign(time=later)
    going = up.assign(metric="lockstep_train_progress_age_seconds", value=0.1)
    seen = dataclasses.replace(run, samples=pd.concat([run.samples, up, going]))

    assert ("unknown", ()) == (diagnose(seen).verdict.status, diagnose(seen).verdict.culprits)


@pytest.mark.parametrize(("arrived", "least", "most"), [(0.5, 0.5, 0.9), (20.0, 0.9, 1.0)])
def test_one_that_is_gone_is_named_once_the_others_were_seen_later(one_gone, arrived, least, most):
    """Surely, when they have waited for long."""
    run = one_gone({1: "running"})
    others = run.samples[(run.samples["rank"] != 1) & run.samples["rank"].notna()]
    last = others[others["time"] == others.groupby("node")["time"].transform("max")]
    up = last[last["metric"] == UP]
    begun = last["metric"] == "lockstep_train_enqueued_sequence"
    later = run.windows["end"].max() + arrived
    inside = up.assign(
        metric="lockstep_train_open_operation_age_seconds", time=later, value=arrived,
        labels='group="dp",op="dp-all-reduce"',
    )  # fmt: skip
    more = last[begun].assign(value=last["value"] + 1, time=later)
    stood = up.assign(metric="lockstep_train_progress_age_seconds", time=later, value=arrived + 1.0)
    seen = dataclasses.replace(run, samples=pd.concat([run.samples, more, inside, stood]))

    assert [(1, "crash")] == _named(seen)
    assert least < diagnose(seen).verdict.culprits[0].place_confidence < most


def test_a_run_in_which_nobody_makes_progress_is_not_healthy(synthetic):
    """Whoever it waits for: where nobody tells of open operations either."""
    run = synthetic(outcome=None).run()
    beats = run.samples["metric"] == "lockstep_train_heartbeat_age_seconds"
    ages = run.samples[beats].assign(metric="lockstep_train_progress_age_seconds", value=0.1)
    ages.loc[ages["time"] == ages.groupby("node")["time"].transform("max"), "value"] = 60.0
    others = ~run.samples["metric"].str.startswith("lockstep_train_open_operation")
    newest = run.samples["time"] == run.samples["time"].max()
    gone = (run.samples["metric"] == UP) & newest
    still = pd.concat([run.samples[others & ~gone], ages])
    verdict = diagnose(dataclasses.replace(run, samples=still)).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "no rank has begun or ended anything for 60 s" in verdict.sentence


def test_a_node_that_fell_silent_before_does_not_say_that_there_was_progress(synthetic):
    run = synthetic(outcome=None).run()
    ages = run.samples[run.samples["metric"] == "lockstep_train_heartbeat_age_seconds"]
    ages = ages.assign(metric="lockstep_train_progress_age_seconds", value=60.0)
    ages.loc[ages["node"] == "node-0", "value"] = 0.1
    end = run.samples["time"].max()
    samples = pd.concat([run.samples, ages])
    newest = (samples["metric"] == UP) & (samples["time"] == end)
    silent = (samples["node"] == "node-0") & (samples["time"] > end - 5)
    grid = align(dataclasses.replace(run, samples=samples[~newest & ~silent]))

    assert 60.0 == stood_still(grid)


def test_ranks_that_are_gone_do_not_stand_still(ended):
    run = ended(("finished",) * 4)
    ages = run.samples[run.samples["metric"] == "lockstep_train_steps_total"]
    ages = ages.assign(metric="lockstep_train_progress_age_seconds", value=60.0)
    grid = align(dataclasses.replace(run, samples=pd.concat([run.samples, ages])))

    assert 0.0 == stood_still(grid)
    assert unexplained(grid) is None


@pytest.mark.parametrize("state", ["", "running", "failed"])
@pytest.mark.parametrize("per_node", [1, 2])
@pytest.mark.parametrize("early", [0, 2])
def test_ranks_that_finished_before_another_one_failed_began_nothing(
    synthetic, per_node, early, state
):
    run = synthetic(ranks_per_node=per_node, outcome=None).run()
    samples, end = run.samples, run.samples["time"].max()
    for rank in range(4):
        since = end - (3.0 if rank <= early else 2.0 if rank < 3 else 1.0)
        late = (samples["rank"] == rank) & (samples["time"] >= since)
        up = samples["metric"] == UP
        samples = samples[~late | ~_of_the_living(samples) | up]
        gone = (samples["rank"] == rank) & (samples["time"] >= since) & (samples["metric"] == UP)
        samples = samples.assign(value=samples["value"].mask(gone, 0.0))
        word = "finished" if rank < 3 else state
        said = samples[gone].assign(metric=STATE, value=1.0, labels=f'state="{word}"')
        samples = pd.concat([samples, said[[bool(word)] * len(said)]])
    exits = [{"rank": rank, "code": 3 * (rank == 3), "seconds": 0.3 * rank} for rank in range(4)]
    outcome = {"ending": "crash", "ranks": [3], "reason": "exited with code 3", "exits": exits}
    seen = dataclasses.replace(run, samples=samples, meta={**run.meta, "outcome": outcome})
    verdict = diagnose(seen).verdict

    assert [(3, "crash")] == [(one.rank, one.cause) for one in verdict.culprits]
    assert "exited with code 0" not in verdict.sentence
    assert "exited with code 3" in verdict.sentence


RAISED = "ValueError: label 9: out of range"
LOST = "RuntimeError: Connection closed by peer"


def _raised(*ranks, ended=(0, 1, 2, 3), error=RAISED, code=1):
    """Some raised their own exception; all others lost a peer, or wrote nothing."""
    return {
        "ending": "crash", "ranks": list(ranks), "reason": f"exited with code {code}: {error}",
        "exits": [{"rank": rank, "code": code if rank in ranks else 1, "seconds": 0.1 * place}
                  for place, rank in enumerate(ended)],
        "raised": [{"rank": rank, "error": error, "of_lost_peer": False} for rank in ranks]
        + [{"rank": rank, "error": LOST, "of_lost_peer": True}
           for rank in ended if rank not in ranks],
    }  # fmt: skip


def test_a_rank_that_raised_is_told_by_its_exception_and_its_node_is_not_drained(ended):
    verdict = diagnose(ended(outcome=_raised(1))).verdict
    (culprit,) = verdict.culprits

    assert (1, "crash") == (culprit.rank, culprit.cause)
    assert f": it raised {RAISED} and exited with code 1" in verdict.sentence
    assert "tail -n 50 logs/rank-{rank}.log" == actions_of(culprit, ())[0].command
    assert not any("drain" in action.command for action in actions_of(culprit, ()))


def test_what_the_launcher_saw_of_its_end_outranks_a_heartbeat_that_had_stopped(frozen):
    run = frozen(1)
    (as_seen,) = diagnose(run).verdict.culprits
    memory = {**run.meta, "outcome": _raised(1, error="MemoryError")}
    (culprit,) = diagnose(dataclasses.replace(run, meta=memory)).verdict.culprits

    assert (1, "freeze") == (as_seen.rank, as_seen.cause)
    assert (1, "crash") == (culprit.rank, culprit.cause)


def test_a_rank_that_raised_and_does_not_end_is_no_rank_of_unknown_cause(stuck):
    run = stuck(1)
    (as_seen,) = diagnose(run).verdict.culprits
    outcome = {"ending": "hang", "ranks": [1], "reason": "", "exits": [],
               "raised": [{"rank": 1, "error": RAISED, "of_lost_peer": False}]}  # fmt: skip
    told = diagnose(dataclasses.replace(run, meta={**run.meta, "outcome": outcome})).verdict

    assert (1, "unknown") == (as_seen.rank, as_seen.cause)
    assert [(1, "crash")] == [(one.rank, one.cause) for one in told.culprits]
    assert f"it raised {RAISED}, and its process did not end" in told.sentence


def test_an_exit_code_is_told_whatever_the_ring_says(ended):
    outcome = {**_raised(1, code=3), "raised": []}
    verdict = diagnose(ended(("failed", "finished", "failed", "failed"), outcome)).verdict

    assert [(1, "crash")] == [(one.rank, one.cause) for one in verdict.culprits]
    assert "it exited with code 3" in verdict.sentence


@pytest.mark.parametrize("error", [RAISED, ""])
def test_what_every_rank_does_is_the_program_s_and_names_nobody(ended, error):
    outcome = _raised(0, 1, 2, 3, error=error, code=3)
    outcome = outcome if error else {**outcome, "raised": []}
    verdict = diagnose(ended(outcome=outcome)).verdict

    assert ((), "unknown") == (verdict.culprits, verdict.status)
    way = f"raised {error}" if error else "exited with code 3"
    assert f"every rank {way}: the program itself failed" in verdict.sentence


@pytest.mark.parametrize(
    ("error", "sizes", "alike"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. GPU {0} has {1} free. Process {0}1 has 9 GiB",
         ["1.56 GiB", "512.00 MiB", "980.5 KiB", "3 bytes"], True),
        ("RuntimeError: CUDA error at 0x7f{0}a{0}: illegal access", ["", "", "", ""], True),
        ("KeyError: '{1}'", ["lr", "wd", "beta", "eps"], False),
        ("{1}Error: GPU {0}", ["Key", "Value", "Index", "Type"], False),
    ],
)  # fmt: skip
def test_exceptions_that_differ_in_numbers_alone_are_the_same(ended, error, sizes, alike):
    outcome = _raised(0, 1, 2, 3)
    for each, size in zip(outcome["raised"], sizes, strict=True):
        each["error"] = error.format(each["rank"], size)
    verdict = diagnose(ended(outcome=outcome)).verdict

    told = f"every rank raised {outcome['raised'][0]['error']}: the program itself failed"
    assert alike is (told in verdict.sentence)
    assert not alike or verdict.culprits == ()


@pytest.mark.parametrize("ranks", [[2], [2, 1, 3]])
def test_an_exception_that_ranks_survived_hides_nobody_whom_a_signal_ended(ended, ranks):
    outcome = {"ending": "crash", "ranks": ranks, "reason": "killed by SIGKILL",
               "exits": [{"rank": 2, "code": -9, "seconds": 0.0}],
               "raised": [{"rank": rank, "error": "ImportError: no apex", "of_lost_peer": False}
                          for rank in (1, 2, 3)]}  # fmt: skip
    verdict = diagnose(ended(("failed", "failed", "running", "failed"), outcome)).verdict

    assert 2 in [one.rank for one in verdict.culprits]
    assert "the program itself failed" not in verdict.sentence
    assert "it was ended by SIGKILL" in verdict.sentence


@pytest.mark.parametrize("raised", [[{"rank": "1", "error": "x"}], [{"rank": 1}], {"rank": 1}, [7]])
def test_exceptions_that_no_launcher_writes_are_refused(synthetic, tmp_path, raised):
    folder = synthetic(steps=20, telemetry=False).write(tmp_path / "a")
    path = folder / "run.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "outcome": {"ending": "crash", "raised": raised}}))

    with pytest.raises(LoadError, match=r"outcome\.raised is .*; it must be "):
        load_archive(folder)


@pytest.fixture
def frozen(synthetic, fault):
    return lambda rank: synthetic(seed=0, faults=[fault("freeze", rank, first=80)]).run()


@pytest.fixture
def stuck(synthetic, fault):
    def run_of(rank):
        def beating(samples):
            ages = samples["metric"] == "lockstep_train_heartbeat_age_seconds"
            samples.loc[ages & (samples["rank"] == rank), "value"] = 0.2
            return samples

        return synthetic(faults=[fault("freeze", rank, first=80)], drop=beating).run()

    return run_of
