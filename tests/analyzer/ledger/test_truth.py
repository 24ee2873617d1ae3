"""Each bucket against what was put into a synthetic run, within 1 % of wall times ranks."""

import dataclasses
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.ledger.attempt import attempt_of, chains
from lockstep.analyzer.ledger.buckets import BUCKETS, Bucket
from lockstep.analyzer.ledger.ledger import ledger
from lockstep.analyzer.ledger.reliability import of_fleet, of_node, of_run
from lockstep.analyzer.ledger.words import ledger_json, sentence
from lockstep.analyzer.verdict.pipeline import diagnose
from tests.analyzer.stragglers.conftest import _scraped as scraped

WITHIN = 0.01


def _book(*runs):
    return ledger([attempt_of(diagnose(run), f"a{n}") for n, run in enumerate(runs)])


def _part(run, first, last, shift, outcome, tail):
    """The steps from `first` to `last` of a run as an attempt that starts `shift` seconds later."""
    windows = run.windows
    windows = windows[(windows["from_step"] >= first) & (windows["from_step"] < last)].copy()
    begin = windows["start"].min()
    move = run.windows["start"].min() + shift - begin
    windows["start"] += move
    windows["end"] += move
    warm = windows["from_step"] < first + 5
    windows["tags"] = np.where(
        warm, "warmup", windows["tags"].where(~(windows["from_step"] < 5), "")
    )
    start, end = begin + move - 2.0, windows["end"].max() + tail
    stamps = {
        name: datetime.fromtimestamp(when, UTC).isoformat()
        for name, when in (("started", start), ("ended", end))
    }
    meta = {**run.meta, **stamps, "outcome": {"ending": outcome}, "recording": {"lost_steps": 0}}
    return dataclasses.replace(run, windows=windows, meta=meta)


@pytest.mark.parametrize(("kind", "factor"), [("compute", 1.5), ("thermal", 1.3), ("data", 2.0)])
@pytest.mark.parametrize("seed", range(2))
def test_what_a_straggler_cost_is_told_by_culprit_and_cause(synthetic, fault, kind, factor, seed):
    slow = synthetic(seed=seed, faults=[fault(kind, 2, factor)]).run()
    clean = synthetic(seed=seed).run()
    truth = float(slow.windows["wall_seconds"].sum() - clean.windows["wall_seconds"].sum())

    book = _book(slow)

    assert book.of(Bucket.STRAGGLER) == pytest.approx(truth, abs=WITHIN * book.rank_seconds)
    assert [one.who for one in book.stragglers] == ["rank 2"]
    assert book.stragglers[0].node == "node-2"
    assert book.stragglers[0].cause == {"compute": "slow-gpu"}.get(kind, kind)
    assert book.share(Bucket.UNKNOWN) < WITHIN


def test_what_is_slow_twice_is_told_twice(synthetic, fault):
    faults = [fault("data", 1, 2.0, 60, 120), fault("thermal", 3, 1.5, 150, None)]
    slow = synthetic(faults=faults).run()
    clean = synthetic().run()
    truth = float(slow.windows["wall_seconds"].sum() - clean.windows["wall_seconds"].sum())

    book = _book(slow)

    assert {(one.who, one.cause) for one in book.stragglers} == {
        ("rank 1", "data"), ("rank 3", "thermal"),
    }  # fmt: skip
    assert book.of(Bucket.STRAGGLER) == pytest.approx(truth, abs=WITHIN * book.rank_seconds)


def test_a_healthy_run_has_no_straggler(synthetic):
    book = _book(synthetic().run())

    assert book.of(Bucket.STRAGGLER) == 0.0
    assert book.goodput > 0.9
    assert "nothing was lost" not in sentence(book)


def test_killed_and_resumed_at_known_moments(synthetic):
    """Crash after step 150, 3 s to notice, 10 s until the next start, resumed from step 120."""
    run = synthetic(steps=400).run()
    first = _part(run, 0, 150, 0.0, "crash", tail=3.0)
    length = first.windows["end"].max() - first.windows["start"].min()
    second = _part(run, 120, 400, length + 3.0 + 10.0 + 2.0, "finished", tail=1.0)
    replayed = second.windows[second.windows["from_step"] < 150]

    book = _book(first, second)

    near = {"abs": WITHIN * book.rank_seconds}
    ranks = 4
    assert book.of(Bucket.STALL) == pytest.approx(3.0 * ranks, **near)
    assert book.of(Bucket.WAITING) == pytest.approx(10.0 * ranks, **near)
    assert book.of(Bucket.STARTING) == pytest.approx(4.0 * ranks, **near)
    assert book.of(Bucket.ENDING) == pytest.approx(1.0 * ranks, **near)
    assert book.of(Bucket.REPLAYED) == pytest.approx(replayed["wall_seconds"].sum(), **near)
    steps = book.of(Bucket.USEFUL) + book.of(Bucket.COMMUNICATION)
    everything = first.windows["wall_seconds"].sum() + second.windows["wall_seconds"].sum()
    assert steps == pytest.approx(everything - replayed["wall_seconds"].sum(), **near)
    assert book.failures == 1
    onward = second.windows.loc[second.windows["from_step"] >= 150, "start"].min()
    assert book.repairs == pytest.approx([onward - first.windows["end"].max()])


def test_an_attempt_ends_with_its_ranks_and_not_when_its_archive_was_closed(synthetic):
    run = _part(synthetic().run(), 0, 100, 0.0, "crash", tail=5.0)
    last = float(run.windows["end"].max())
    gone = datetime.fromtimestamp(last + 3.0, UTC).isoformat()
    told = _book(dataclasses.replace(run, meta={**run.meta, "ranks_ended": gone}))

    assert told.attempts[0].end == pytest.approx(last + 3.0)


def test_an_attempt_that_vanished_is_unknown_from_its_last_sign_on(synthetic):
    run = _part(synthetic().run(), 0, 200, 0.0, None, tail=0.0)
    meta = {**run.meta, "ended": None, "outcome": None}
    run = dataclasses.replace(run, meta=meta)

    book = _book(run)

    last = run.windows.groupby("rank")["end"].max()
    seen = max(run.samples["time"].max(), last.max())
    assert book.of(Bucket.UNKNOWN) == pytest.approx(float((seen - last).sum()), abs=1e-3)
    assert any("has no end" in each for each in book.missing)


def test_the_archive_of_a_finding_begins_where_the_run_was_seen(synthetic):
    """Its `started` is where reading began, here 100 s before the run's first window."""
    run = synthetic().run()
    first = float(run.windows["start"].min())
    early = run.samples.iloc[:1].assign(time=first - 100.0, metric="node_load1", value=1.0)
    up = run.samples.iloc[:1].assign(time=first - 1.0, metric="lockstep_rank_up", value=1.0)
    samples = pd.concat([early, up, run.samples], ignore_index=True)
    reading = datetime.fromtimestamp(first - 100.0, UTC).isoformat()
    meta = {"source": "prometheus", "started": reading, "ended": None}
    told = attempt_of(diagnose(dataclasses.replace(run, samples=samples, meta=meta)))

    assert told.begin == first - 1.0
    assert told.span
    assert not told.failed
    assert ledger([told]).goodput > 0.9


def test_windows_of_a_prometheus_give_the_same_ledger(synthetic, fault):
    run = synthetic(faults=[fault("thermal", 1, 1.5)]).run()
    exact, coarse = _book(run), _book(scraped(run, 5))

    for row in BUCKETS:
        assert coarse.share(row.bucket) == pytest.approx(exact.share(row.bucket), abs=0.02)


def test_without_timed_collectives_a_step_is_useful_as_a_whole_and_that_is_said(synthetic):
    run = synthetic().run()
    run = dataclasses.replace(
        run, windows=run.windows.assign(own_seconds=np.nan, collective_seconds=np.nan)
    )
    book = _book(run)

    assert book.of(Bucket.COMMUNICATION) == 0.0
    assert any("did not time its collectives" in each for each in book.missing)


def test_attempts_are_chained_by_the_checkpoint_they_went_on_from(synthetic):
    runs = [_part(synthetic(seed=n).run(), 0, 99, 60.0 * n, "crash", 0.0) for n in range(3)]
    resumed = {
        **runs[1].meta,
        "spec": {"training": {"resume": "runs/a0/checkpoints/step-00000120"}},
    }
    runs[1] = dataclasses.replace(runs[1], meta=resumed)
    told = [attempt_of(diagnose(run), f"a{number}") for number, run in enumerate(runs)]

    jobs = chains(told)

    assert [[one.name for one in job] for job in jobs] == [["a0", "a1"], ["a2"]]


def test_teams_and_money_are_summed(synthetic):
    runs = [synthetic(seed=seed).run() for seed in range(2)]
    runs[0] = dataclasses.replace(runs[0], meta={**runs[0].meta, "labels": {"team": "speech"}})
    books = [_book(run) for run in runs]

    tree = ledger_json(books, price=2.0)

    assert set(tree["teams"]) == {"speech", "unknown"}
    whole = sum(one["gpu_hours"] for one in tree["all"]["buckets"])
    assert whole * 3600.0 == pytest.approx(tree["all"]["rank_seconds"])
    assert tree["all"]["buckets"][0]["money"] == pytest.approx(
        2.0 * tree["all"]["buckets"][0]["gpu_hours"]
    )


def test_who_was_only_slow_is_no_failure_of_a_node(synthetic, fault):
    run = _part(synthetic(faults=[fault("thermal", 1, 1.5)]).run(), 0, 150, 0.0, "crash", tail=1.0)
    named = {**run.meta, "outcome": {"ending": "crash", "ranks": [3]}}

    nobody = of_node([_book(run)])
    one = of_node([_book(dataclasses.replace(run, meta=named))])

    assert nobody.failures == 0
    assert one.failures == 1


def test_processes_are_matched_by_order_where_labels_begin_later(synthetic):
    """Labels 3 and 4 of a run of which two launches were seen, in windows 0 and 1."""
    run = synthetic().run()
    half = run.windows["from_step"] >= 100
    windows = run.windows.assign(attempt=half.astype(int))
    windows.loc[half, ["start", "end"]] += 10.0
    gone = run.windows.loc[~half].groupby("rank")["end"].max()
    told = [
        {"time": gone[rank] + after, "rank": rank, "metric": metric, "value": value,
         "labels": labels}
        for rank in gone.index for after, metric, value, labels in (
            (-5.0, "lockstep_rank_info", 1.0, 'attempt="3"'),
            (2.0, "lockstep_rank_up", 0.0, ""),
            (8.0, "lockstep_rank_info", 1.0, 'attempt="4"'),
        )
    ]  # fmt: skip
    seen = attempt_of(diagnose(run))
    run = dataclasses.replace(run, windows=windows, samples=pd.DataFrame(told))
    book = ledger([dataclasses.replace(seen, run=run, end=seen.end + 10.0)])

    assert book.of(Bucket.WAITING) == pytest.approx(6.0 * 4, abs=0.1)


def _restarted(synthetic, first_step, nodes=(), answers=True):
    """100 steps of four ranks, and after 22 s of torchrun a second launch from a step on."""
    run = synthetic(steps=200).run()
    early, late = _part(run, 0, 100, 0.0, "crash", 0.0), _part(run, first_step, 200, 30.0, "", 0.0)
    windows = pd.concat(
        [part.windows.assign(attempt=number) for number, part in enumerate((early, late))],
        ignore_index=True,
    )
    gone, up = early.windows["end"].max() + 1.0, early.windows["end"].max() + 23.0
    late_start = windows.loc[windows["attempt"] == 1, "start"]
    shift = up + 2.0 - late_start.min()
    windows.loc[windows["attempt"] == 1, ["start", "end"]] += shift
    own = {info.rank: info.node for info in run.ranks}
    told = [
        {"time": when, "rank": rank, "node": node, "metric": metric, "value": value,
         "labels": labels}
        for rank in own
        for when, node, metric, value, labels in (
            (early.windows["start"].min(), own[rank], "lockstep_rank_info", 1.0, 'attempt="0"'),
            (gone, own[rank], "lockstep_rank_up", 0.0, ""),
            *((gone + second, own[rank], "up", float(answers), "") for second in range(1, 22)),
            (up, dict(nodes).get(rank, own[rank]), "lockstep_rank_info", 1.0, 'attempt="1"'),
        )
    ]  # fmt: skip
    seen = attempt_of(diagnose(run))
    run = dataclasses.replace(run, windows=windows, samples=pd.DataFrame(told))
    end = float(windows["end"].max())
    return ledger([dataclasses.replace(seen, run=run, end=end)])


def test_what_torchrun_starts_again_on_the_same_nodes_is_starting_and_an_attempt(synthetic):
    book = _restarted(synthetic, first_step=79)

    assert book.of(Bucket.WAITING) == 0.0
    assert book.of(Bucket.STARTING) >= 22.0 * len(book.ranks)
    assert (2, 1) == (book.launches, book.failures)
    assert book.seconds.sum() == pytest.approx(book.rank_seconds)


@pytest.mark.parametrize("lost", [{"nodes": ((1, "node-9"),)}, {"answers": False}])
def test_a_restart_for_which_a_node_came_or_was_dark_waited_for_it(synthetic, lost):
    book = _restarted(synthetic, first_step=79, **lost)

    assert book.of(Bucket.WAITING) == pytest.approx(22.0 * len(book.ranks), abs=0.1)


def test_steps_that_overlap_are_replayed_and_no_others(synthetic):
    step = _restarted(synthetic, first_step=100)
    book = _restarted(synthetic, first_step=79)
    of_all = _restarted(synthetic, first_step=0)
    windows = book.attempts[0].run.windows
    again = windows[(windows["attempt"] == 1) & (windows["to_step"] <= 100)]

    assert 21 * len(book.ranks) == len(again)
    assert step.of(Bucket.REPLAYED) == 0.0
    assert book.of(Bucket.REPLAYED) == pytest.approx(again["wall_seconds"].sum(), rel=0.05)
    assert not any("first_step" in each for each in book.missing)
    assert any("recorder(first_step=)" in each for each in of_all.missing)


def test_three_attempts_fail_alike_as_archives_or_in_one(synthetic):
    run = synthetic(steps=300).run()
    parts = [_part(run, 0, 100, 0.0, "crash", 0.0)]
    for first in (80, 160):
        shift = parts[-1].windows["end"].max() - run.windows["start"].min() + 3.0
        parts.append(_part(run, first, first + 100, shift, "crash", 0.0))
    windows = pd.concat(
        [part.windows.assign(attempt=number) for number, part in enumerate(parts)],
        ignore_index=True,
    )
    meta = {**parts[-1].meta, "started": parts[0].meta["started"]}
    told = [
        {"time": when, "rank": rank, "metric": metric, "value": value, "labels": labels}
        for number, part in enumerate(parts)
        for rank in part.windows["rank"].unique()
        for when, metric, value, labels in (
            (part.windows["start"].min() - 2.0, "lockstep_rank_info", 1.0, f'attempt="{number}"'),
            (part.windows["end"].max(), "lockstep_rank_up", 0.0, ""),
        )
    ]
    whole = attempt_of(diagnose(dataclasses.replace(run, windows=windows, meta=meta)))
    seen = dataclasses.replace(whole.run, samples=pd.DataFrame(told))

    apart, one = _book(*parts), ledger([dataclasses.replace(whole, run=seen)])

    assert apart.failures == one.failures == 3
    assert apart.repairs[:2] == pytest.approx(one.repairs[:2])
    assert np.isnan([apart.repairs[2], one.repairs[2]]).all()
    assert of_run(one).mtbf.value == pytest.approx(of_run(apart).mtbf.value)


def test_runs_side_by_side_share_the_time_of_the_fleet(synthetic):
    book = _book(synthetic().run())

    assert of_fleet([book, book]).exposure_seconds == pytest.approx(book.wall_seconds)


def test_a_checkpoint_that_was_read_is_measured_rank_by_rank(synthetic):
    run = _part(synthetic().run(), 0, 200, 0.0, "finished", tail=1.0)
    first = float(run.windows["start"].min())
    spans = {str(info.rank): [first - 1.5, first - 0.5] for info in run.ranks}
    run = dataclasses.replace(run, meta={**run.meta, "restored": spans})

    book = _book(run)

    assert book.of(Bucket.RESTORED) == pytest.approx(1.0 * len(run.ranks))
    assert book.of(Bucket.STARTING) == pytest.approx(
        _book(dataclasses.replace(run, meta={**run.meta, "restored": {}})).of(Bucket.STARTING)
        - 1.0 * len(run.ranks)
    )
    assert not any("read its checkpoint" in each for each in book.missing)


@pytest.mark.parametrize(
    "told",
    [None, 3, {"0": None}, {"0": [1]}, {"x": [1, 2]}, {"0": ["a", 2]}, {"0": [9e99, 1]},
     {"0": [float("nan"), 2]}, {"0": [-1e9, 9e9]}],
    ids=str,
)  # fmt: skip
def test_nonsense_about_restoring_still_closes(synthetic, told):
    run = _part(synthetic().run(), 0, 200, 0.0, "finished", tail=1.0)
    book = _book(dataclasses.replace(run, meta={**run.meta, "restored": told}))

    assert float(book.seconds.sum()) == pytest.approx(book.rank_seconds, rel=1e-6)


def test_shares_of_nodes_and_the_fleet_have_intervals_over_them(synthetic, fault):
    slow = _part(synthetic(faults=[fault("thermal", 1, 1.5)]).run(), 0, 200, 0.0, "finished", 1.0)
    books = [_book(slow), _book(_part(synthetic(seed=1).run(), 0, 200, 0.0, "finished", 60.0))]

    run, node, fleet = of_run(books[0]), of_node(books), of_fleet(books)
    assert run.goodput.value == pytest.approx(books[0].goodput)
    assert run.ettr.value == pytest.approx(books[0].ettr)
    assert np.isnan(run.goodput.interval).all()
    shares = [one.goodput for one in books]
    assert fleet.goodput.interval == (pytest.approx(min(shares)), pytest.approx(max(shares)))
    assert min(shares) < fleet.goodput.value < max(shares)
    # Everybody waits for the slow one: nodes hardly differ.
    assert node.goodput.value == pytest.approx(fleet.goodput.value)
    low, high = node.goodput.interval
    assert low <= node.goodput.value <= high
    assert high - low < 0.1 * (max(shares) - min(shares))
    for one in books:
        assert sum(one.by_node.values()) == pytest.approx(one.seconds.sum(axis=0))


def test_a_repair_is_of_the_node_whose_end_it_followed(synthetic):
    """Rank 3 of node-3 ends the first attempt, nobody knows who ended the second."""
    run = synthetic(steps=300).run()
    parts = [_part(run, 0, 100, 0.0, "crash", 0.0)]
    for first in (80, 160):
        shift = parts[-1].windows["end"].max() - run.windows["start"].min() + 3.0
        parts.append(_part(run, first, first + 100, shift, "crash", 0.0))
    named = {**parts[0].meta, "outcome": {"ending": "crash", "ranks": [3]}}
    parts[0] = dataclasses.replace(parts[0], meta=named)
    book = _book(*parts)

    assert book.repaired_from == (frozenset({"node-3"}), frozenset(), frozenset())
    told = of_node([book])
    assert (told.failures, told.repaired) == (1, 1)
    assert told.mttr.value == pytest.approx(book.repairs[0])
    assert np.isnan(told.mttr.interval).all()


def test_what_was_queued_evaluated_and_saved_is_in_buckets_of_its_own(synthetic):
    """Submitted 7 s before it started; 3 s of evaluation in step 50, 2 s of a checkpoint in 80."""
    run = _part(synthetic().run(), 0, 100, 0.0, "finished", 1.0)
    before, windows = _book(run), run.windows.copy()
    for step, name, seconds in ((50, "eval", 3.0), (80, "checkpoint", 2.0)):
        mine, later = windows["from_step"] == step, windows["from_step"] > step
        windows.loc[mine, [f"{name}_seconds", "wall_seconds", "own_seconds", "end"]] += seconds
        windows.loc[mine, "tags"] = name
        windows.loc[later, ["start", "end"]] += seconds
    moment = datetime.fromisoformat(run.meta["started"]).timestamp()
    over = datetime.fromisoformat(run.meta["ended"]).timestamp()
    told = {
        name: datetime.fromtimestamp(when, UTC).isoformat()
        for name, when in (("submitted", moment - 7.0), ("ended", over + 5.0))
    }
    book = _book(dataclasses.replace(run, windows=windows, meta={**run.meta, **told}))

    ranks = len(run.ranks)
    assert book.of(Bucket.QUEUED) == pytest.approx(7.0 * ranks, abs=1e-3)
    assert book.of(Bucket.EVALUATION) == pytest.approx(3.0 * ranks)
    assert book.of(Bucket.SAVED) == pytest.approx(2.0 * ranks)
    for bucket in (Bucket.USEFUL, Bucket.COMMUNICATION, Bucket.STRAGGLER, Bucket.UNKNOWN):
        near = pytest.approx(before.of(bucket), abs=0.01 * book.rank_seconds)
        assert book.of(bucket) == near
