"""The search takes each rank once, pauses only if they are one rank's, and says how sure it is."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stats.changepoint import clearest_spans
from lockstep.analyzer.stragglers.confidence import accepted
from lockstep.analyzer.stragglers.model.effects import effects
from lockstep.analyzer.stragglers.model.reference import natural_levels
from lockstep.analyzer.verdict.pipeline import diagnose


@pytest.fixture(scope="module")
def healthy(synthetic):
    return synthetic(seed=7, world=8, steps=300, telemetry=False).run()


def pauses(*steps):
    """Strength 1 in single steps."""
    return lambda step: np.isin(step, steps).astype(float)


def test_a_rank_that_stands_still_a_few_times_is_named(healthy, slowed):
    run = slowed(healthy, [3], 20.0, pauses(150, 181, 220, 251))

    assert [3] == [finding.rank for finding in effects(align(run))]


def test_pauses_that_wander_accuse_nobody(healthy, slowed):
    run = healthy
    for rank, step in ((3, 150), (5, 181), (0, 220), (6, 251)):
        run = slowed(run, [rank], 20.0, pauses(step))

    assert () == effects(align(run))


def test_a_clear_culprit_is_sure_and_a_faint_one_less(healthy, slowed, steadily):
    def place(factor):
        (finding,) = effects(align(slowed(healthy, [3], factor, steadily(200))))
        return finding.details["place_confidence"]

    assert 0.99 < place(1.3) <= 1.0
    assert 0.0 < place(1.052) < place(1.3)


def test_who_is_slow_as_well_is_no_alternative(healthy, slowed, steadily):
    found = effects(align(slowed(healthy, [2, 5], 1.3, steadily(150))))

    assert {2, 5} == {finding.rank for finding in found}
    assert all(finding.details["place_confidence"] > 0.99 for finding in found)


@pytest.mark.parametrize("shared", [1.0, 0.6])
def test_a_node_is_told_though_its_ranks_share_its_trouble_unevenly(
    healthy, slowed, steadily, on_nodes, shared
):
    run = slowed(healthy, [2], 1.4, steadily(150))
    run = slowed(run, [3], 1.0 + 0.4 * shared, steadily(150))

    assert ["node-1"] * 2 == [each.details.get("node") for each in effects(align(on_nodes(run, 2)))]


def test_two_slow_ranks_of_a_node_of_four_are_two_ranks(healthy, slowed, steadily, on_nodes):
    run = on_nodes(slowed(healthy, [4, 5], 1.4, steadily(150)), 4)

    assert {(4, None), (5, None)} == {
        (each.rank, each.details.get("node")) for each in effects(align(run))
    }


def staged(run, stages, per_node):
    """Each stage on nodes of its own, several of them."""
    size = len(run.ranks) // stages
    ranks = tuple(
        dataclasses.replace(i, pp=i.rank // size, dp=i.rank % size, node=f"n{i.rank // per_node}")
        for i in run.ranks
    )
    return dataclasses.replace(run, ranks=ranks)


def test_a_stage_that_becomes_slower_is_structure_and_nobodys_fault(healthy, slowed, steadily):
    run = staged(slowed(healthy, [4, 5, 6, 7], 1.3, steadily(150)), 2, 2)
    verdict = diagnose(run).verdict

    assert [("structure", 1)] == [
        (each.kind, each.details["stage"]) for each in effects(align(run))
    ]
    assert ((), "degraded") == (verdict.culprits, verdict.status)
    assert ["stage-slowdown"] == [each["kind"] for each in verdict.structure]
    assert "all 4 ranks of stage 1 took 1.3" in verdict.sentence


def test_one_slow_node_of_a_stage_is_the_node(healthy, slowed, steadily):
    run = staged(slowed(healthy, [4, 5], 1.3, steadily(150)), 2, 2)

    assert ["n2"] * 2 == [each.details.get("node") for each in effects(align(run))]


def test_where_all_levels_wander_a_wander_accuses_nobody():
    """Random walks of 16 ranks: the lag-one correlation of a few blocks says too little of them."""
    dice = np.random.default_rng(3)
    scores = []
    for _ in range(40):
        walk = np.cumsum(0.02 * dice.normal(size=(36, 16)), axis=0)
        scores += [shift.score / shift.critical for shift in clearest_spans(walk, peers=15)]
    steady = clearest_spans(0.02 * dice.normal(size=(36, 16)), peers=15)

    assert np.mean(np.array(scores) >= 1.0) <= 0.01
    assert max(shift.critical for shift in steady) < 8.0


def test_pauses_that_all_have_hide_nobody_who_is_slow():
    """Two blocks of three that hold a pause are no span, however high they stand."""
    dice = np.random.default_rng(4)
    series = 0.005 * dice.normal(size=(36, 32))
    series[15, :20] += 0.3
    series[17, :20] += 0.25
    series[14:, 3] += 0.18
    found = {shift.column: shift for shift in clearest_spans(series, peers=15)}

    assert found[3].score >= found[3].critical


@pytest.mark.parametrize(("factor", "felt"), [(1.3, 1.01), (1.6, 1.02), (2.5, 1.04)])
def test_a_rank_whose_neighbour_feels_it_stays_a_rank(
    healthy, slowed, steadily, on_nodes, factor, felt
):
    run = slowed(slowed(healthy, [2], factor, steadily(150)), [3], felt, steadily(150))
    found = effects(align(on_nodes(run, 2)))

    assert [(2, None)] == [(each.rank, each.details.get("node")) for each in found]


def test_who_only_loses_an_advantage_is_not_slow(healthy, slowed, steadily):
    run = slowed(healthy, [3], 0.85, lambda step: (step < 150).astype(float))

    assert () == effects(align(run))


def test_of_two_ranks_the_one_that_is_now_and_then_faster_makes_no_culprit(synthetic, slowed):
    two = synthetic(seed=3, world=2, steps=300, telemetry=False).run()
    run = slowed(two, [1], 0.8, lambda step: ((step > 80) & (step % 5 == 0)).astype(float))

    assert () == effects(align(run))


def test_a_run_that_stands_still_for_a_third_of_its_time_is_not_healthy(healthy, slowed):
    verdict = diagnose(slowed(healthy, [3], 60.0, pauses(150, 230))).verdict

    assert ("unknown", ()) == (verdict.status, verdict.culprits)
    assert "stood still" in verdict.sentence
    assert "rank 3 (node-3)" in verdict.sentence


@pytest.mark.parametrize(("others", "status"), [(True, "healthy"), (False, "unknown")])
def test_a_long_stall_is_noise_where_all_ranks_stall_now_and_then(
    synthetic, slowed, others, status
):
    """Of one rank, for more than 2 % of the run; others' shorter ones let it be expected."""
    run = synthetic(seed=5, world=8, steps=2500, telemetry=False).run()
    run = slowed(run, [3], 90.0, lambda step: (step == 1100) * 1.0)
    for place in range(30 if others else 0):
        peer, longer = (0, 1, 2, 4, 5, 6, 7)[place % 7], 2.2 * (30 / (1 + place)) ** 0.7
        run = slowed(run, [peer], longer, lambda step, at=40 + 80 * place: (step == at) * 1.0)
    told = diagnose(run).verdict

    assert (status, ()) == (told.status, told.culprits)
    assert ("stood still" in told.sentence) == (status == "unknown")


def with_a_silent_peer(run, on_nodes):
    """Two nodes of four ranks, of which the first tells nothing from step 170 on."""
    windows = run.windows.copy()
    silent = (windows["rank"] < 4) & (windows["from_step"] >= 170)
    windows.loc[silent, ["own_seconds", "collective_seconds"]] = np.nan
    return on_nodes(dataclasses.replace(run, windows=windows), 4)


def test_whether_a_node_moved_itself_is_asked_where_its_only_peer_told(healthy, slowed, on_nodes):
    """The other node falls silent meanwhile: that it is as fast as before later says nothing."""
    run = slowed(healthy, [4, 5, 6, 7], 1.5, lambda step: ((step >= 120) & (step < 190)) * 1.0)
    found = effects(align(with_a_silent_peer(run, on_nodes)))

    assert {"node-1"} == {each.details.get("node") for each in found}
    assert {4, 5, 6, 7} == {each.rank for each in found}
    assert all(each.slowdown == pytest.approx(1.5, abs=0.05) for each in found)


@pytest.mark.parametrize("until", [190, 300])
def test_whether_a_node_still_is_slow_is_not_known_once_its_only_peer_is_silent(
    healthy, slowed, on_nodes, until
):
    run = slowed(healthy, [4, 5, 6, 7], 1.5, lambda step: ((step >= 120) & (step < until)) * 1.0)
    verdict = diagnose(with_a_silent_peer(run, on_nodes)).verdict
    (culprit,) = verdict.culprits

    assert ("node-1", pytest.approx(120, abs=5)) == (culprit.node, culprit.from_step)
    assert (None, 170) == (culprit.to_step, culprit.known_to_step)
    assert "to step 170, after which it had no peer to compare with" in verdict.sentence


def test_who_is_slow_to_the_end_is_known_to_be_so(healthy, slowed, on_nodes, steadily):
    (culprit,) = diagnose(on_nodes(slowed(healthy, [5], 1.5, steadily(120)), 4)).verdict.culprits

    assert (None, None) == (culprit.to_step, culprit.known_to_step)


@pytest.mark.parametrize("silent", [[2, 3], [0, 1, 4, 5], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]])
def test_who_fell_silent_before_is_no_level_for_those_that_went_on(
    healthy, slowed, on_nodes, silent
):
    """Each rank is a stage, and all became slower; some told nothing soon after."""
    run = on_nodes(slowed(healthy, range(8), 1.3, lambda step: (step >= 130) * 1.0), 2)
    ranks = tuple(dataclasses.replace(each, dp=0, pp=each.rank) for each in run.ranks)
    windows = run.windows.copy()
    gone = windows["rank"].isin(silent) & (windows["from_step"] >= 150)
    windows.loc[gone, ["own_seconds", "collective_seconds"]] = np.nan
    run = dataclasses.replace(run, ranks=ranks, windows=windows)

    assert () == effects(align(run))


def late(window: int, rank: int) -> bool:
    return window >= 20 and rank < 5


def in_turns(window: int, rank: int) -> bool:
    return not 5 * rank <= window < 5 * rank + 12


@pytest.mark.parametrize("missing", [late, in_turns, lambda window, rank: (window, rank) == (3, 0)])
def test_levels_are_those_of_ranks_whenever_they_told(missing):
    """Own time is a rank's level times what a window has in common, also where much is missing."""
    dice = np.random.default_rng(0)
    level, common = dice.normal(size=6), np.cumsum(dice.normal(size=(40, 1)), axis=0)
    own = level + common
    for place in np.ndindex(own.shape):
        own[place] = np.nan if missing(*place) else own[place]
    found = natural_levels(own)

    np.testing.assert_allclose(found - found[0], level - level[0], atol=1e-4)


def test_levels_of_nobody_are_not_known():
    own = np.full((5, 3), np.nan)
    own[0, 0] = 1.0

    np.testing.assert_array_equal([1.0, np.nan, np.nan], natural_levels(own))
    assert np.isnan(natural_levels(np.full((5, 3), np.nan))).all()


@pytest.mark.parametrize("lead", [6, 10, 14])
@pytest.mark.parametrize("factor", [1.2, 1.44])
def test_where_most_of_it_is_slow_the_span_begins_where_that_began(lead, factor):
    """And not at a wiggle inside of it: values count from the lower of the two levels."""
    series = 0.004 * np.random.default_rng(0).standard_normal((36, 6))
    series[lead:, 0] += np.log(factor)
    series[-12:, 0] -= 0.01
    (found,) = [one for one in clearest_spans(series, peers=5) if one.column == 0]

    assert (lead, 36) == (found.first, found.last)
    assert np.log(factor) == pytest.approx(found.effect, abs=0.01)
    assert found.score > found.critical


@pytest.mark.parametrize(("first", "second"), [(0.3, 1.0), (0.12, 0.5)])
def test_a_large_rise_after_a_smaller_one_is_found(synthetic, slowed, steadily, first, second):
    """Values do not count from the lowest of three levels, from which the two others look alike."""
    run = synthetic(seed=3, world=8, steps=300, telemetry=False).run()
    run = slowed(slowed(run, [2], 1.0 + first, steadily(45)), [2], 1.0 + second, steadily(180))

    (culprit,) = diagnose(run).verdict.culprits
    assert 2 == culprit.rank


# Small peer groups: the own past of a rank names it.


@pytest.fixture(scope="module")
def two_stages(synthetic):
    """Two replicas of two stages."""
    run = synthetic(seed=3, world=4, steps=240, telemetry=False).run()
    ranks = tuple(dataclasses.replace(i, pp=i.rank // 2, dp=i.rank % 2) for i in run.ranks)
    return dataclasses.replace(run, ranks=ranks)


def named_in(run):
    return [finding.rank for finding in effects(align(run))]


def test_two_slow_ranks_of_two_stages_are_both_named(two_stages, slowed, steadily):
    run = slowed(slowed(two_stages, [0], 1.5, steadily(80)), [3], 1.3, steadily(120))

    assert [0, 3] == sorted(named_in(run))


@pytest.mark.parametrize("rank", range(4))
def test_one_slow_rank_is_named_alone(two_stages, slowed, steadily, rank):
    assert [rank] == named_in(slowed(two_stages, [rank], 1.5, steadily(80)))


def test_two_slow_ranks_of_one_stage_are_told_by_the_other_stage(two_stages, slowed, steadily):
    run = slowed(slowed(two_stages, [0], 1.5, steadily(60)), [1], 1.5, steadily(150))

    assert [0, 1] == sorted(named_in(run))


def test_healthy_ranks_are_silent(two_stages):
    assert [] == named_in(two_stages)


# Slow from the first step on: beyond what identical parts differ by, or nobody.

PARTS = (1.0, 1.13, 1.04, 1.17, 1.06, 1.0, 1.15, 1.09)
"""Factors of parts of which none is broken."""


@pytest.fixture(scope="module")
def of_parts(synthetic):
    return synthetic(seed=7, world=8, steps=200, telemetry=False).run()


def accused(run):
    grid = align(run)
    found = accepted(grid, [*effects(grid), *effects(grid)])
    return {finding.details.get("node", finding.rank) for finding in found}


@pytest.mark.parametrize(("factor", "named"), [(1.18, set()), (1.35, {2})])
def test_a_part_is_named_beyond_the_spread_of_parts(of_parts, slowed, steadily, factor, named):
    assert named == accused(slowed(of_parts, [2], factor, steadily(0)))


def test_of_two_nodes_the_one_that_always_was_slower_is_named(of_parts, slowed, steadily, on_nodes):
    run = on_nodes(slowed(of_parts, [4, 5, 6, 7], 1.12, steadily(0)), 4)

    assert {"node-1"} == accused(run)


@pytest.mark.parametrize("per_node", [2, 4])
def test_nodes_of_parts_that_differ_are_no_slow_nodes(
    of_parts, slowed, steadily, on_nodes, per_node
):
    run = of_parts
    for rank, factor in enumerate(PARTS):
        run = slowed(run, [rank], factor, steadily(0))

    assert set() == accused(on_nodes(dataclasses.replace(run), per_node))


@pytest.mark.parametrize(("fast", "named"), [(1.0, {"node-2"}), (1.0 / 1.2, set())])
def test_a_node_as_much_slower_as_another_is_faster_is_of_another_kind(
    synthetic, slowed, steadily, on_nodes, fast, named
):
    """Nothing that breaks makes a node faster: such a fleet has parts of two kinds."""
    run = synthetic(seed=7, world=16, steps=200, telemetry=False).run()
    run = slowed(run, [4, 5], 1.2, steadily(0))

    assert named == accused(on_nodes(slowed(run, [10, 11], fast, steadily(0)), 2))


# What began only just now.


@pytest.fixture(scope="module")
def short_run(synthetic):
    return synthetic(seed=7, world=8, steps=200, telemetry=False).run()


def seen_until(run, step):
    return dataclasses.replace(run, windows=run.windows[run.windows["from_step"] < step])


def test_a_rank_is_named_ten_steps_after_it_became_slow(short_run, slowed, steadily):
    grid = align(seen_until(slowed(short_run, [3], 1.3, steadily(150)), 161))
    (finding,) = effects(grid)

    assert (3, None) == (finding.rank, finding.last)
    assert abs(finding.slowdown - 1.3) < 0.06
    assert abs(int(grid.from_step[finding.first]) - 150) <= 3


@pytest.mark.parametrize("step", range(100, 201, 20))
def test_a_healthy_run_is_silent_whenever_it_is_asked(short_run, step):
    assert () == effects(align(seen_until(short_run, step)))


def test_one_long_pause_is_no_slowness(short_run, slowed):
    run = slowed(short_run, [3], 4.0, lambda step: np.isin(step, [191, 196]).astype(float))

    assert () == effects(align(run))


@pytest.mark.parametrize(
    ("total", "steps", "factor", "named"),
    [(800, 80, 1.6, True), (800, 80, 1.12, False), (240, 24, 1.6, True), (240, 12, 1.6, False)],
)
def test_what_came_and_went_is_named_by_what_it_cost(
    synthetic, slowed, total, steps, factor, named
):
    """A percent of the run and twenty steps, however long the run is; it wakes nobody."""
    long, begin = synthetic(seed=7, world=8, steps=total, telemetry=False).run(), total // 3
    run = slowed(long, [5], factor, lambda step: (step >= begin) & (step < begin + steps))
    culprits = diagnose(run).verdict.culprits

    assert ([5] if named else []) == [one.rank for one in culprits]
    assert all(one.tier == "record" and abs(one.from_step - begin) <= 3 for one in culprits)


def test_less_than_a_tenth_is_named_after_more_steps(short_run, slowed, steadily):
    run = slowed(short_run, [3], 1.06, steadily(150))

    assert () == effects(align(seen_until(run, 160)))
    assert [3] == [each.rank for each in effects(align(run))]
