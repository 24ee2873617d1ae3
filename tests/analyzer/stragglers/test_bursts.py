"""Who is slow again and again is found, by the mean and not the median; stalls of all are not."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.align.telemetry import telemetry
from lockstep.analyzer.shapes.run import RankInfo
from lockstep.analyzer.shapes.windows import from_samples
from lockstep.analyzer.stats.temporal_shape import EPISODES_AT_LEAST, on_and_off
from lockstep.analyzer.stragglers.detectors.links import links
from lockstep.analyzer.stragglers.model.candidate import Candidate
from lockstep.analyzer.stragglers.model.effects import effects
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.analyzer.verdict.status import why_unknown
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import (
    Defect,
    Difficulty,
    Fault,
    Resolution,
    Shape,
    SyntheticFleet,
)
from lockstep.evaluation.synth.hard_draw import hard
from lockstep.evaluation.synth.whole import labelled


def run_of(*faults, **words):
    defaults = {"dp": 16, "steps": 300, "resolution": Resolution.STEP, "seed": 3}
    return labelled(SyntheticFleet(**defaults | words, faults=faults)).run


def fault(cause, form, place, factor=1.8, shape=Shape.BURSTS, **words):
    return Fault(cause, form, place, factor, 60, shape=shape, **words)


def found(run):
    return {finding.rank: finding for finding in effects(align(run))}


@pytest.mark.parametrize("shape", [Shape.BURSTS, Shape.PERIODIC])
@pytest.mark.parametrize("resolution", [Resolution.STEP, Resolution.SCRAPE])
def test_a_rank_that_is_slow_again_and_again_is_found_since_it_began(shape, resolution):
    steps, begin = (300, 60) if resolution is Resolution.STEP else (700, 250)
    late = dataclasses.replace(fault(Cause.DATA, "loader", 5, shape=shape), from_step=begin)
    (finding,) = found(run_of(late, resolution=resolution, steps=steps)).values()

    assert 5 == finding.rank
    assert 1.03 < finding.slowdown < 1.8
    assert finding.first > 0
    assert finding.share["data"] > 0.6


def test_a_node_whose_ranks_are_slow_together_is_named_once():
    burst = fault(Cause.HOST_CPU, "contention", 9, whole_node=True)
    verdict = diagnose(run_of(burst)).verdict

    (culprit,) = verdict.culprits
    assert ("node", "node-1", "host-cpu") == (culprit.scope, culprit.node, culprit.cause)


def test_a_link_is_named_by_the_counters_of_its_node_and_nobody_without_them():
    burst = fault(Cause.LINK, "errors", 8, 1.5)
    run = run_of(burst, dp=32)
    (finding,) = links(align(run))
    silent = run.samples[~run.samples["metric"].str.startswith(("lockstep_net", "lockstep_tcp",
                                                                "lockstep_ib"))]  # fmt: skip

    assert ("link", "node-1") == (finding.kind, finding.details["node"])
    object.__setattr__(run, "samples", silent)
    assert () == tuple(links(align(run)))


@pytest.mark.parametrize(
    "difficulties",
    [(Difficulty.HEAVY_TAILS,), (Difficulty.CORRELATED, Difficulty.DRIFT), (Difficulty.UNEVEN,)],
)
def test_what_all_have_now_and_then_accuses_nobody(difficulties):
    assert {} == found(run_of(difficulties=difficulties))


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_row_of_bursts(seed):
    noise = np.random.default_rng(seed).normal(0.0, 0.03, 400)
    told = on_and_off(noise, least=0.08, most=0.9)

    assert abs(told.mean) < 0.03
    assert told.episodes < EPISODES_AT_LEAST


def test_how_a_series_goes_on_and_off():
    series = np.random.default_rng(0).normal(0.0, 0.01, 400)
    series[100:300:20] += 0.5
    told = on_and_off(series, least=0.08, most=0.4)

    assert (100, 281, 10) == (told.begin, told.stop, told.episodes)
    assert 0.4 * 10 / 400 == pytest.approx(told.mean, abs=0.01)


def test_too_few_windows_say_nothing():
    assert on_and_off(np.zeros(39), least=0.1, most=1.0) is None
    assert on_and_off(np.full(100, np.nan), least=0.1, most=1.0) is None


def test_a_rank_s_mates_are_not_accused_with_it():
    """Of two ranks on a node the median is the mean: half of the node is slow, and not the node."""
    run = run_of(fault(Cause.DATA, "loader", 5))
    pairs = [dataclasses.replace(info, node=f"pair-{info.rank // 2}") for info in run.ranks]
    run = dataclasses.replace(run, ranks=tuple(pairs))

    assert {5} == set(found(run))
    assert "node" not in found(run)[5].details


def spiked(run, rank, columns, seconds, every):
    """The run with so many seconds more of a rank in every so-manieth step, from the first on."""
    windows = run.windows.copy()
    mine = (windows["rank"] == rank) & (windows["from_step"] % every == every - 1)
    windows.loc[mine, columns] += seconds
    return dataclasses.replace(run, windows=windows)


@pytest.mark.parametrize("phase", ["checkpoint_seconds", "other_seconds"])
def test_who_writes_or_logs_for_all_since_the_first_turn_does_so_by_design(phase):
    columns = ["own_seconds", "wall_seconds", phase]
    run = spiked(run_of(), 0, columns, 3.0, 20)

    assert all(one.kind == "heavy" for one in found(run).values())
    assert () == diagnose(run).verdict.culprits


def since_the_start(cause, form, **words):
    """Half of the time slow from the first step on, by less on average than parts differ."""
    defaults = {"shape": Shape.PERIODIC, "factor": 1.25}
    return dataclasses.replace(fault(cause, form, 5, **defaults | words), from_step=0)


def test_what_comes_again_and_again_since_the_start_is_named_by_hardware_that_deviates():
    (culprit,) = diagnose(run_of(since_the_start(Cause.THERMAL, "sw"))).verdict.culprits

    assert (5, "thermal") == (culprit.rank, culprit.cause)


def test_an_error_of_memory_that_the_driver_logged_is_one_of_hardware_as_its_counter_is():
    run = run_of(since_the_start(Cause.ECC, "uncorrected"))
    samples = run.samples[~run.samples["metric"].str.contains("ecc|remap")]
    logged = samples["metric"] == metrics.GPU_XID_LAST.name
    at_once = samples["value"].where(~logged, run.windows["start"].min() + 5.0)
    assert logged.any()
    run = dataclasses.replace(run, samples=samples.assign(value=at_once))
    (culprit,) = diagnose(run).verdict.culprits

    assert (5, "ecc") == (culprit.rank, culprit.cause)


@pytest.mark.parametrize(("high", "since_start"), [
    (np.arange(17, 300, 18), True),
    (np.append(30, np.arange(170, 300, 18)), False),
])  # fmt: skip
def test_turns_before_the_span_that_holds_most_of_it_tell_whether_it_ever_began(high, since_start):
    shift = SimpleNamespace(column=0)
    one = Candidate(
        SimpleNamespace(usable=np.arange(5, 300)), 0, (), shift, np.zeros(1), np.zeros(1), np.inf,
        np.empty(0), (int(high[1]), None), by_mean=True, high=high,
    )  # fmt: skip

    assert since_start == one.since_start


def test_without_a_sign_of_hardware_it_names_nobody_and_the_run_is_not_healthy():
    run = run_of(since_the_start(Cause.THERMAL, "sw"))
    silent = run.samples[~run.samples["metric"].str.startswith("lockstep_gpu")]
    verdict = diagnose(dataclasses.replace(run, samples=silent)).verdict

    assert ((), "unknown") == (verdict.culprits, verdict.status)
    assert "rank 5 took" in verdict.sentence


def test_what_all_do_again_and_again_since_the_start_is_nobodys():
    run = run_of()
    windows = run.windows.copy()
    windows.loc[windows["from_step"] % 20 >= 10, ["own_seconds", "wall_seconds"]] *= 1.3

    assert {} == found(dataclasses.replace(run, windows=windows))


def test_windows_in_which_all_are_slow_but_not_alike_accuse_nobody():
    run = run_of()
    windows = run.windows.copy()
    some = windows["from_step"].isin(np.random.default_rng(1).choice(np.arange(60, 300), 40))
    windows.loc[some, "own_seconds"] *= 1.3
    windows.loc[some & (windows["rank"] == 3), "own_seconds"] *= 1.15

    assert {} == found(dataclasses.replace(run, windows=windows))


def test_a_rank_of_which_little_is_known_makes_no_link_and_no_nan():
    run = run_of(fault(Cause.LINK, "errors", 8, 1.5), dp=32)
    windows = run.windows.copy()
    early = (windows["rank"] == 3) & (windows["from_step"] < 60)
    windows.loc[early, ["own_seconds", "collective_seconds"]] = np.nan
    verdict = diagnose(dataclasses.replace(run, windows=windows)).verdict

    assert "nan" not in verdict.sentence.lower()


def paused(resolution, *, seconds=60.0, steps=700, begin=200):
    """A rank whose process stands still for a minute now and then, from `begin` on."""
    fleet = SyntheticFleet(dp=16, steps=steps, resolution=resolution, seed=3)
    stop = Fault(Cause.FREEZE, "pause", 5, 1.0 + seconds / fleet.step_seconds, begin,
                 shape=Shape.BURSTS)  # fmt: skip
    return labelled(dataclasses.replace(fleet, faults=(stop,))).run


@pytest.mark.parametrize("resolution", [Resolution.STEP, Resolution.SCRAPE])
def test_a_process_that_stands_still_now_and_then_is_frozen_by_its_heartbeat(resolution):
    verdict = diagnose(paused(resolution)).verdict
    (culprit,) = verdict.culprits

    assert (5, "freeze") == (culprit.rank, culprit.cause)
    assert "its heartbeat stopped for" in verdict.sentence


def test_a_pause_that_a_scrape_parts_in_two_is_one_pause():
    """Half of it lies before the scrape that sees an old heartbeat, and half after."""
    (culprit,) = diagnose(labelled(hard(380014, injected=True)).run).verdict.culprits

    assert (5, "freeze") == (culprit.rank, culprit.cause)


@pytest.mark.parametrize(
    ("seed", "rank", "why"),
    [
        (390043, 3, "twenty windows that stand out, two of the others': these are no long stalls"),
        (390009, 0, "sixteen beside five of collected garbage, and a mean far beyond long stalls"),
    ],
)
def test_bursts_are_told_from_stalls_by_how_often_or_how_much(seed, rank, why):
    (culprit,) = diagnose(labelled(hard(seed, injected=True)).run).verdict.culprits

    assert rank == culprit.rank, why


def test_evaluations_that_failed_scrapes_spread_over_windows_name_no_node():
    (culprit,) = diagnose(labelled(hard(390001, injected=True)).run).verdict.culprits

    assert ("node", "node-1") == (culprit.scope, culprit.node)


def test_without_heartbeats_it_is_found_and_less_is_known_of_why():
    run = paused(Resolution.STEP, steps=1200, begin=300)
    beats = run.samples["metric"] == metrics.TRAIN_HEARTBEAT_AGE.name
    (culprit,) = diagnose(dataclasses.replace(run, samples=run.samples[~beats])).verdict.culprits

    assert 5 == culprit.rank
    assert culprit.confidence < 0.95


def test_a_rank_that_is_slow_in_turns_with_a_heartbeat_is_not_frozen():
    verdict = diagnose(run_of(fault(Cause.DATA, "loader", 5, 20.0))).verdict

    assert ["data"] == [each.cause for each in verdict.culprits]


def test_a_run_that_stands_still_while_it_is_scraped_is_no_gap_of_scrapes():
    """Scrapes that see the same step are scrapes; only where there is none nobody knows."""
    run = paused(Resolution.SCRAPE)
    longest = run.windows[run.windows["rank"] == 5]["own_seconds"].max()
    times = np.sort(run.samples["time"].unique())
    middle, long = times[len(times) // 3], 150.0
    lost = run.samples[(run.samples["time"] < middle) | (run.samples["time"] > middle + long)]
    windows = from_samples(lost)
    inside = (windows["start"] < middle + long / 2) & (windows["end"] > middle + long / 2)

    assert longest > 55.0
    assert not inside.any()


def test_a_link_that_comes_and_goes_from_the_first_step_on_is_told_by_counters_that_move_with_it():
    always = dataclasses.replace(fault(Cause.LINK, "errors", 8, 1.5), from_step=0)
    run = run_of(always, dp=32)
    (finding,) = links(align(run))

    assert ("link", "node-1") == (finding.kind, finding.details["node"])
    counted = run.samples["metric"].str.startswith(("lockstep_net", "lockstep_tcp", "lockstep_ib"))
    elsewhere = labelled(SyntheticFleet(
        dp=32, steps=300, resolution=Resolution.STEP, seed=3,
        faults=(dataclasses.replace(always, place=8, factor=1.0, shape=Shape.CONSTANT),),
    )).run.samples  # fmt: skip
    steady = elsewhere[elsewhere["metric"].str.startswith(
        ("lockstep_net", "lockstep_tcp", "lockstep_ib"))]  # fmt: skip
    mixed = pd.concat([run.samples[~counted], steady], ignore_index=True)
    assert () == tuple(links(align(dataclasses.replace(run, samples=mixed))))


def without_network(run):
    counted = run.samples["metric"].str.startswith(("lockstep_net", "lockstep_tcp", "lockstep_ib"))
    return dataclasses.replace(run, samples=run.samples[~counted])


def test_turns_of_a_link_that_noise_hides_one_by_one_are_told_by_when_its_counter_is_high():
    flaps = fault(Cause.LINK, "flap", 11, 1.15, Shape.PERIODIC)
    run = run_of(
        dataclasses.replace(flaps, from_step=250), steps=612, resolution=Resolution.SCRAPE,
        difficulties=(Difficulty.UNEVEN, Difficulty.HEAVY_TAILS),
    )  # fmt: skip
    (culprit,) = diagnose(run).verdict.culprits

    assert ("link", "link") == (culprit.scope, culprit.cause)
    assert () == tuple(links(align(without_network(run))))


def test_three_long_turns_of_a_link_are_enough_where_its_counter_has_them_too():
    run = labelled(hard(402032, injected=True, only=[Difficulty.PERIODIC])).run
    (culprit,) = diagnose(run).verdict.culprits

    assert ("node-4", "congestion") == (culprit.node, culprit.cause)


@pytest.mark.parametrize("shape", [Shape.BURSTS, Shape.PERIODIC])
def test_when_half_of_the_nodes_fall_silent_a_link_in_turns_is_still_told(shape):
    turns = dataclasses.replace(fault(Cause.CONGESTION, "incast", 8, 1.6, shape), from_step=250)
    run = run_of(
        turns, dp=32, steps=700, resolution=Resolution.SCRAPE, defects=(Defect.SILENT,)
    )  # fmt: skip
    (culprit,) = diagnose(run).verdict.culprits

    assert ("node-1", "congestion") == (culprit.node, culprit.cause)
    assert () == tuple(links(align(without_network(run))))


def test_turns_of_a_rank_that_fell_silent_are_nobodys_link():
    loads = fault(Cause.DATA, "loader", 5, 2.0, Shape.PERIODIC)
    run = run_of(loads, dp=8, pp=2)
    windows = run.windows.copy()
    silent = (windows["rank"] < 8) & (windows["from_step"] >= 60)
    windows.loc[silent, ["own_seconds", "collective_seconds"]] = np.nan

    assert () == tuple(links(align(dataclasses.replace(run, windows=windows))))


def test_a_rank_that_is_slow_in_turns_on_a_node_that_wanders_is_the_rank():
    loads = dataclasses.replace(fault(Cause.DATA, "loader", 7, 1.36, Shape.PERIODIC), from_step=849)
    run = run_of(
        loads, dp=3, pp=2, tp=4, steps=1495, resolution=Resolution.SCRAPE,
        difficulties=(Difficulty.CORRELATED,),
    )  # fmt: skip
    (culprit,) = diagnose(run).verdict.culprits

    assert (7, "data") == (culprit.rank, culprit.cause)


def test_turns_of_a_rank_with_one_peer_are_told_since_they_began():
    """Blocks hold parts of a turn, so their middle is no natural level of the rank."""
    run = labelled(hard(402039, injected=True, only=[Difficulty.PERIODIC])).run
    (culprit,) = diagnose(run).verdict.culprits

    assert (5, "data") == (culprit.rank, culprit.cause)
    assert 658 == pytest.approx(culprit.from_step, abs=6)


def test_two_nodes_of_a_stage_that_are_slow_by_turns_of_their_own_are_no_heavier_stage():
    nodes = [
        dataclasses.replace(one, from_step=begin)
        for one, begin in (
            (fault(Cause.DATA, "loader", 9, 1.6, Shape.PERIODIC, whole_node=True), 113),
            (fault(Cause.HOST_CPU, "contention", 23, 1.35, Shape.PERIODIC, whole_node=True), 166),
        )
    ]
    verdict = diagnose(run_of(*nodes, dp=3, pp=2, tp=4)).verdict

    assert {("node-1", "data"), ("node-2", "host-cpu")} == {
        (each.node, each.cause) for each in verdict.culprits if each.scope == "node"
    }


def test_a_process_that_stands_still_is_found_beside_longer_stalls_of_others():
    fleet = SyntheticFleet(
        dp=16, steps=700, resolution=Resolution.SCRAPE, seed=3,
        difficulties=(Difficulty.HEAVY_TAILS,),
    )  # fmt: skip
    stop = Fault(Cause.FREEZE, "pause", 5, 1.0 + 30.0 / fleet.step_seconds, 200,
                 shape=Shape.BURSTS)  # fmt: skip
    run = labelled(dataclasses.replace(fleet, faults=(stop,))).run
    windows = run.windows.copy()
    longest = windows["from_step"] == windows["from_step"].median() // 1
    assert longest.any()
    windows.loc[longest & (windows["rank"] == 9), "own_seconds"] += 60.0
    (culprit,) = diagnose(dataclasses.replace(run, windows=windows)).verdict.culprits

    assert (5, "freeze") == (culprit.rank, culprit.cause)


def standing_still(moments, columns, seconds=20.0):
    """A healthy run in which some ranks stand still in single steps."""
    run = run_of(tp=1, dp=16)
    windows, ranks = run.windows.copy(), [run.ranks[column].rank for column in columns]
    there = windows["from_step"].isin(moments) & windows["rank"].isin(ranks)
    windows.loc[there, "own_seconds"] += seconds
    windows.loc[windows["from_step"].isin(moments), "wall_seconds"] += seconds
    return dataclasses.replace(run, windows=windows)


def test_a_node_whose_ranks_stand_still_together_now_and_then_is_named():
    (culprit,) = diagnose(standing_still([150, 160, 190, 198, 240, 255], range(8))).verdict.culprits

    assert ("node", "node-0") == (culprit.scope, culprit.node)


@pytest.mark.parametrize("moments", [[61, 90, 98, 170, 181, 255], range(40, 300, 40)])
def test_pauses_since_soon_after_the_start_may_be_the_design_of_the_run(moments):
    assert () == diagnose(standing_still(moments, [5], 6.0)).verdict.culprits


def with_heartbeats(grid, moments, column, age):
    """The grid; scrapes saw the heartbeat of a rank so old in some windows, else a fresh one."""
    ages = np.zeros(grid.time["own"].shape)
    ages[np.isin(grid.from_step, moments), column] = age
    return dataclasses.replace(grid, signals={metrics.TRAIN_HEARTBEAT_AGE.series(): ages})


def test_a_process_that_was_seen_to_stand_still_once_is_named_for_that_time_whoever_it_is():
    grid = with_heartbeats(align(standing_still([150], [0])), [150], 0, 12.0)
    (finding,) = effects(grid)

    assert 0 == finding.rank
    assert [150, 151] == [grid.from_step[finding.first], grid.from_step[finding.last]]


def test_one_pause_far_beyond_all_others_is_its_own_by_its_length_alone():
    (finding,) = found(standing_still([150], [5], 400.0)).values()

    assert 5 == finding.rank


@pytest.mark.parametrize(("column", "seconds"), [(5, 0.4), (0, 400.0)])
def test_one_pause_not_so_far_or_of_the_first_rank_which_tells_of_the_run_names_nobody(
    column, seconds
):
    run = standing_still([150], [column], seconds)
    verdict = diagnose(run).verdict

    assert () == verdict.culprits
    assert ("healthy" if seconds < 1.0 else "unknown") == verdict.status


def test_an_evaluation_of_one_rank_once_is_no_pause():
    run = standing_still([150], [5], 400.0)
    windows = run.windows.copy()
    there = (windows["from_step"] == 150) & (windows["rank"] == run.ranks[5].rank)
    windows.loc[there, "eval_seconds"] += 400.0

    assert {} == found(dataclasses.replace(run, windows=windows))


def test_a_heartbeat_is_looked_for_in_the_window_of_its_rank_not_in_that_of_those_who_wait():
    """A rank stands still at the end of its step, and the others wait for it in the next one."""
    ranks = tuple(RankInfo(rank, f"node-{rank}", 0, None, 0, rank, 0, 0) for rank in range(3))
    begun = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 41.0], [41.5, 41.5, 41.5]])
    ended = np.array([[1.0, 1.0, 41.0], [41.5, 41.5, 41.5], [42.5, 42.5, 42.5]])
    times = np.array([0.5, 10.0, 20.0, 30.0, 42.0])
    rows = [
        (f"node-{rank}", rank, time, time - 1.0 if rank == 2 and 1.0 < time < 41.0 else 0.5)
        for rank in range(3)
        for time in times
    ]
    samples = pd.DataFrame(rows, columns=["node", "rank", "time", "value"]).assign(
        gpu=np.nan, metric=metrics.TRAIN_HEARTBEAT_AGE.name, labels=""
    )
    middle = (np.median(begun, axis=1) + np.median(ended, axis=1)) / 2
    told = telemetry(samples, ranks, middle, (begun, ended))
    ages = told.signals[metrics.TRAIN_HEARTBEAT_AGE.series()]

    assert [29.0, 0.5] == [ages[0, 2], ages[2, 2]]
    assert 0.5 == ages[:, :2].max()


def test_who_is_slow_beside_a_slow_half_of_its_peers_is_named_as_well():
    node = Fault(Cause.DATA, "loader", 0, 2.0, 60, whole_node=True)
    rank = Fault(Cause.SLOW_GPU, "slow", 11, 1.4, 100)
    verdict = diagnose(run_of(node, rank)).verdict

    assert {("node", "node-0"), ("rank", "node-1")} == {
        (each.scope, each.node) for each in verdict.culprits
    }


def test_of_three_kinds_of_parts_no_more_than_half_are_slow_from_the_start():
    """Whose past says nothing: the two that are left may as well be fast."""
    run = run_of(dp=8)
    windows = run.windows.copy()
    kinds = dict(enumerate([1.8, 1.8, 1.8, 1.8, 1.4, 1.4, 1.0, 1.0]))
    windows["own_seconds"] *= windows["rank"].map(kinds)
    verdict = diagnose(dataclasses.replace(run, windows=windows)).verdict

    assert len(verdict.culprits) <= 4


def slow_stage_in_turns():
    """Five nodes that are a stage each; the second is slow in three turns of 120 steps."""
    turns = [
        Fault(Cause.POWER, "cap", 13, 1.8, begin, begin + 120, whole_node=True)
        for begin in (250, 490, 730)
    ]
    return run_of(*turns, dp=1, pp=5, tp=8, steps=1000, resolution=Resolution.SCRAPE)


def test_a_node_that_alone_is_a_stage_and_slow_in_few_long_turns_is_named():
    (culprit,) = diagnose(slow_stage_in_turns()).verdict.culprits

    assert ("node", "node-1") == (culprit.scope, culprit.node)


def test_steps_that_are_longer_in_turns_are_not_healthy_whoever_is_why():
    usual = run_of(dp=1, pp=5, tp=8, steps=1000, resolution=Resolution.SCRAPE)

    assert "again and again" in why_unknown(align(slow_stage_in_turns()), None)
    assert why_unknown(align(usual), None) is None
