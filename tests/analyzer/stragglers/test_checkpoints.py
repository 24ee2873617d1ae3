"""A rank that writes checkpoints longer than who writes with it; and nobody who writes alone."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.common_writes import without_common_writes
from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stragglers.detectors.checkpoints import checkpoints, unlike_writers
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import SLOW_WRITE, Benign, Fault, Resolution, SyntheticFleet
from lockstep.evaluation.synth.whole import labelled


def run_of(*faults, **words):
    defaults = {"dp": 16, "steps": 600, "resolution": Resolution.STEP}
    fleet = SyntheticFleet(**defaults | words, benign=(Benign.CHECKPOINT,), faults=faults)
    return labelled(fleet).run


SLOW = Fault(Cause.CHECKPOINT, SLOW_WRITE, 5, 6.0, 0)


def test_the_slow_writer_is_named_with_its_cause_although_these_steps_are_masked():
    diagnosis = diagnose(run_of(SLOW))
    (culprit,) = diagnosis.verdict.culprits

    assert (5, "checkpoint") == (culprit.rank, culprit.cause)
    assert any("s to write each of" in fact.text for fact in culprit.evidence)
    assert 1.0 < culprit.slowdown < 1.2, "of all steps, not of those in which it writes"
    assert diagnosis.grid.masked[diagnosis.findings[0].first]


def test_writers_alike_accuse_nobody():
    assert () == tuple(checkpoints(align(run_of())))


def behind_a_barrier(run, since=0):
    """Whoever has written waits for the last, and the phase of all lasts as long."""
    windows = run.windows.copy()
    longest = windows.groupby("from_step")["checkpoint_seconds"].transform("max")
    late = windows["from_step"] >= since
    windows["checkpoint_seconds"] = windows["checkpoint_seconds"].where(~late, longest)
    return dataclasses.replace(run, windows=windows)


@pytest.mark.parametrize("resolution", [Resolution.STEP, Resolution.SCRAPE])
def test_the_slow_writer_is_named_where_all_wait_for_it_inside_the_phase(resolution):
    run = behind_a_barrier(run_of(SLOW, resolution=resolution))
    (culprit,) = diagnose(run).verdict.culprits

    assert (5, "checkpoint") == (culprit.rank, culprit.cause)


@pytest.mark.parametrize("begin", [0, 400])
def test_what_a_slow_writer_costs_is_what_all_waited_for_it(begin):
    run = run_of(dataclasses.replace(SLOW, from_step=begin))
    written = run.windows.pivot(index="from_step", columns="rank", values="checkpoint_seconds")
    longer = (written[5] - written.median(axis=1))[written.index >= begin].sum()
    diagnosis = diagnose(run)

    assert longer == pytest.approx(3600 * diagnosis.verdict.lost_gpu_hours / 16, rel=0.15)
    assert diagnosis.verdict.slowdown == pytest.approx(diagnosis.findings[0].slowdown, abs=0.1)


def test_behind_a_barrier_writers_alike_accuse_nobody():
    assert () == diagnose(behind_a_barrier(run_of())).verdict.culprits


def only(grid, ranks):
    """Nobody else writes."""
    told = grid.time["checkpoint"].copy()
    told[:, [c for c in range(told.shape[1]) if c not in ranks]] = 0.0
    return dataclasses.replace(grid, time={**grid.time, "checkpoint": told})


def test_who_writes_for_all_has_no_peers():
    assert [] == list(checkpoints(only(align(run_of(SLOW)), {5})))


@pytest.mark.parametrize(("growth", "begin"), [(1.0, 300), (8.0, 300), (8.0, 150)])
def test_where_who_writes_for_all_comes_to_write_far_longer_the_run_is_not_healthy(growth, begin):
    """Nobody is named: more may be written, or the storage be slow."""
    run = run_of()
    windows = run.windows.copy()
    alone, late = windows["rank"] == 0, windows["from_step"] >= begin
    usual = windows["checkpoint_seconds"].where(alone, 0.0)
    now = usual * np.where(late, growth, 1.0)
    longest = (now - usual).groupby(windows["from_step"]).transform("max")
    windows["own_seconds"] += now - windows["checkpoint_seconds"]
    windows["wall_seconds"] += longest
    windows["checkpoint_seconds"] = now
    verdict = diagnose(dataclasses.replace(run, windows=windows)).verdict

    assert () == verdict.culprits
    assert ("healthy" if growth == 1.0 else "unknown") == verdict.status
    assert growth == 1.0 or "checkpoints took" in verdict.sentence


def test_writers_are_compared_with_writers():
    (finding,) = checkpoints(only(align(run_of(SLOW)), {0, 4, 5, 8, 12}))

    assert 5 == finding.rank


@pytest.mark.parametrize("share", [0.002, 0.05])
def test_who_writes_a_little_in_every_window_hides_no_slow_writer(share):
    grid = align(run_of(SLOW))
    told = grid.time["checkpoint"].copy()
    often = np.random.default_rng(3).gamma(4.0, 0.25, len(told))
    told[:, 7] = np.nan_to_num(told[:, 7]) + share * often * grid.time["own"][:, 7]

    (finding,) = checkpoints(dataclasses.replace(grid, time={**grid.time, "checkpoint": told}))

    assert (5, "slow") == (finding.rank, finding.kind)


def longer(grid, kept, long):
    """Of the first `kept` writes and no others, those in `long` take rank 5 six times as long."""
    told = grid.time["checkpoint"].copy()
    writes = np.flatnonzero((np.nan_to_num(told) > 0).any(axis=1))
    told[writes[kept:]] = 0.0
    told[np.ix_(writes[list(long)], [5])] *= 6.0
    return dataclasses.replace(grid, time={**grid.time, "checkpoint": told})


@pytest.mark.parametrize("kept", [1, 2, 5])
def test_one_long_write_is_a_busy_file_system_and_all_of_them_are_the_writers(kept):
    grid = align(run_of())
    once = checkpoints(longer(grid, kept, [0]))
    always = checkpoints(longer(grid, kept, range(kept)))

    assert [] == list(once)
    assert ([5] if kept > 1 else []) == [finding.rank for finding in always]


def test_of_few_writes_the_noise_is_told_of_all_writers_together():
    grid = align(run_of(pp=2, tp=2))
    (column,) = (c for c, i in enumerate(grid.ranks) if (i.dp, i.pp, i.tp) == (1, 0, 1))
    told = grid.time["checkpoint"].copy()
    told[:, column] *= 1.6
    time = {**grid.time, "checkpoint": told}

    (finding,) = checkpoints(dataclasses.replace(grid, time=time))

    assert (grid.ranks[column].rank, "slow") == (finding.rank, finding.kind)


def test_of_few_writes_a_rank_that_became_slow_is_found_by_the_noise_of_all():
    grid = align(run_of())
    told = grid.time["checkpoint"].copy()
    writes = np.flatnonzero((np.nan_to_num(told) > 0).any(axis=1))
    middle = len(writes) // 2
    told[np.ix_(writes[middle:], [5])] *= 1.5

    (finding,) = checkpoints(dataclasses.replace(grid, time={**grid.time, "checkpoint": told}))

    assert (5, None) == (finding.rank, finding.last)
    assert finding.first in writes[middle - 1 : middle + 1]


def test_the_first_replica_may_write_more_by_design():
    grid = align(run_of())
    told = grid.time["checkpoint"].copy()
    told[:, 0] *= 2.0

    time = {**grid.time, "checkpoint": told}
    assert [] == list(checkpoints(dataclasses.replace(grid, time=time)))


def test_of_the_first_replica_only_what_one_takes_beyond_the_others_of_it_counts():
    grid = align(run_of(pp=2, tp=2))
    first = [column for column, info in enumerate(grid.ranks) if info.dp == 0]
    told = grid.time["checkpoint"].copy()
    told[:, first] *= 2.0
    design = dataclasses.replace(grid, time={**grid.time, "checkpoint": told})
    more = told.copy()
    more[:, first[1]] *= 2.5
    slow = dataclasses.replace(grid, time={**grid.time, "checkpoint": more})

    assert [] == checkpoints(design)
    assert [grid.ranks[first[1]].rank] == [each.rank for each in checkpoints(slow)]


def test_of_three_replicas_the_slow_writer_stands_out_as_all_strata_tell_how_writes_scatter():
    fleet = SyntheticFleet(
        dp=3, pp=2, tp=4, steps=600, resolution=Resolution.STEP, benign=(Benign.CHECKPOINT,),
        faults=(Fault(Cause.CHECKPOINT, SLOW_WRITE, 16, 8.0, 0),),
    )  # fmt: skip
    healthy = dataclasses.replace(fleet, faults=())

    assert [16] == [each.rank for each in checkpoints(align(labelled(fleet).run))]
    assert [] == list(checkpoints(align(labelled(healthy).run)))


def staged(of, factor, since=0):
    """A pipeline of four stages of which some replicas write; one takes longer."""
    grid = align(run_of(dp=4, pp=4, tp=1))
    writers = [c for c, info in enumerate(grid.ranks) if info.dp in of]
    (slow,) = (c for c in writers if (grid.ranks[c].dp, grid.ranks[c].pp) == (of[0], 2))
    grid = only(grid, writers)
    told = grid.time["checkpoint"].copy()
    writes = np.flatnonzero((np.nan_to_num(told) > 0).any(axis=1))
    told[np.ix_(writes[since:], [slow])] *= factor
    return dataclasses.replace(grid, time={**grid.time, "checkpoint": told}), slow


def test_two_writers_of_a_stage_are_judged_by_those_of_the_others_who_write_as_long():
    grid, slow = staged([1, 2], 2.5)

    assert [grid.ranks[slow].rank] == [each.rank for each in checkpoints(grid)]
    assert [] == list(checkpoints(staged([1, 2], 1.0)[0]))


@pytest.mark.parametrize("since", [2, 3])
def test_the_only_writer_of_a_stage_is_named_where_it_came_to_write_longer(since):
    grid, slow = staged([1], 2.5, since)

    assert [grid.ranks[slow].rank] == [each.rank for each in checkpoints(grid)]


def test_the_only_writer_of_a_stage_that_always_wrote_longer_may_do_so_by_design():
    grid, slow = staged([1], 2.5)

    assert [] == list(checkpoints(grid))
    assert f"rank {grid.ranks[slow].rank} (" in str(unlike_writers(grid))
    assert unlike_writers(staged([1], 1.0)[0]) is None


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("of", [[0], [0, 1], [0, 1, 2, 3]])
def test_a_stage_that_writes_more_than_the_others_is_nobodys_peer(stage, of):
    """As the first one, which holds the embedding."""
    grid = align(run_of(dp=4, pp=4, tp=1))
    grid = only(grid, [c for c, info in enumerate(grid.ranks) if info.dp in of])
    told = grid.time["checkpoint"].copy()
    told[:, [c for c, info in enumerate(grid.ranks) if info.pp == stage]] *= 1.5

    assert [] == list(checkpoints(replace_phase(grid, told)))


def replace_phase(grid, told):
    return dataclasses.replace(grid, time={**grid.time, "checkpoint": told})


def test_where_nothing_tells_the_wait_from_the_write_nobody_is_named():
    """Rank 0 writes in every window but a few, as long each time, and all wait for it."""
    grid = align(run_of())
    told = np.zeros_like(grid.time["own"])
    told[np.arange(len(told)) % 5 > 0] = 0.5
    own = grid.time["own"].copy()
    own[:, 0] += told[:, 0]
    time = {**grid.time, "own": own, "checkpoint": told}
    several = dataclasses.replace(
        grid, from_step=10 * grid.from_step, to_step=10 * grid.to_step, time=time,
        masked=np.zeros(len(told), dtype=bool),
    )  # fmt: skip
    bare = without_common_writes(several)
    first, others = (np.nanmedian(bare.time["own"][:, part]) for part in ([0], slice(1, None)))

    assert [] == list(checkpoints(bare))
    assert first < 1.2 * others


def scraped(run, several, written, waited):
    """Windows of so many steps, most of which hold a write: seconds of it by rank, and the wait."""
    grid = align(run)
    windows, dice = np.arange(len(grid.start)), np.random.default_rng(5)
    part = np.where(windows % 3 == 0, 0.0, dice.uniform(0.2, 1.0, len(windows)))[:, None]
    own = grid.time["own"] + part * written / several
    time = {**grid.time, "own": own, "checkpoint": part * (written + waited) / several}
    return dataclasses.replace(
        grid, from_step=several * grid.from_step, to_step=several * grid.to_step, time=time,
        masked=np.zeros(len(windows), dtype=bool),
    )  # fmt: skip


def test_where_most_windows_hold_a_write_own_time_tells_by_how_it_goes_with_it():
    """All wait for the slowest inside the phase, and no window shows the usual step."""
    written = np.full(16, 5.0)
    written[5] = 10.0
    grid = scraped(run_of(), 10, written, written.max() - written)
    bare = without_common_writes(grid)
    usual = align(run_of()).time["own"]

    assert np.isfinite(bare.time["own"][1:]).sum() == np.isfinite(usual[1:]).sum()
    np.testing.assert_allclose(
        np.nanmedian(usual, axis=0), np.nanmedian(bare.time["own"], axis=0), rtol=0.05
    )
    assert [5] == [each.rank for each in checkpoints(bare)]


def test_where_most_windows_hold_a_write_one_long_stall_makes_nothing_else_unknown():
    grid = scraped(run_of(), 10, np.full(16, 5.0), np.full(16, 2.0))
    own = grid.time["own"].copy()
    own[30, 3] += 500.0
    stalled = dataclasses.replace(grid, time={**grid.time, "own": own})
    known = np.isfinite(without_common_writes(stalled).time["own"])

    assert known[1:, 3].sum() == known[1:, 4].sum() > 0


def test_where_most_windows_hold_a_write_writers_alike_accuse_nobody():
    grid = scraped(run_of(), 10, np.full(16, 5.0), np.full(16, 2.0))

    assert [] == list(checkpoints(without_common_writes(grid)))


@pytest.mark.parametrize("evaluated", [0.0, 2.0])
def test_who_only_waits_in_the_phase_is_no_writer_in_noisy_steps_or_beside_evaluations(evaluated):
    """One rank of each node writes, all alike; all are in the phase for as long."""
    grid, dice = align(run_of()), np.random.default_rng(7)
    writers = np.arange(16) % 4 == 0
    noise = dice.normal(0.0, 0.3, grid.time["own"].shape)
    writes = (np.nan_to_num(grid.time["checkpoint"]) > 0).any(axis=1)[:, None]
    bare = grid.time["own"] - np.nan_to_num(grid.time["checkpoint"]) + noise
    written = np.where(writers & writes, 1.0, 0.0)
    design = np.where(writes & (writers >= 0), evaluated, 0.0)
    time = {**grid.time, "own": bare + written + design, "eval": design}
    time |= {"checkpoint": np.where(writes & (writers >= 0), 1.2, 0.0)}
    told = without_common_writes(dataclasses.replace(grid, time=time))

    assert [] == list(checkpoints(told))
    seconds = np.nansum(told.time["written"], axis=0)
    assert (seconds[~writers] == 0.0).mean() > 0.8
    assert (seconds[writers] > 0.0).all()
