"""Periodic and growing slowness, from windows alone: of single steps, and of 15 as scraped."""

import re

import pytest

from lockstep.analyzer.stats.before_after import share_of_excess
from lockstep.analyzer.verdict.pipeline import diagnose


@pytest.fixture(scope="module")
def healthy(synthetic):
    return synthetic(seed=5, world=4, steps=900, telemetry=False).run()


def slow(run):
    """(rank, shape, period) of each slow rank, and the verdict."""
    done = diagnose(run)
    told = [(f.rank, f.details["shape"], f.details["period_steps"])
            for f in done.findings if f.kind == "slow"]  # fmt: skip
    return told, done.verdict


@pytest.mark.parametrize("factor", [1.2, 1.5])
def test_a_rank_slow_on_and_off_is_named_with_its_period(healthy, slowed, turning, factor):
    told, verdict = slow(slowed(healthy, [1], factor, turning(300, 60)))

    assert [(1, "periodic", 60)] == told
    assert [1] == [culprit.rank for culprit in verdict.culprits]
    told = verdict.culprits[0].evidence[0].text
    assert re.search(r"on and off at regular distances, every 60 steps \((4[89]|5\d)%", told)


@pytest.mark.parametrize("factor", [1.2, 1.5])
def test_scraped_windows_show_the_turns_as_well(healthy, slowed, turning, scraped, factor):
    told, _ = slow(scraped(slowed(healthy, [1], factor, turning(300, 60)), 15))

    assert [(1, "periodic", 60)] == told


def test_turns_shorter_than_two_windows_are_steady_in_the_mean(healthy, slowed, turning, scraped):
    told, verdict = slow(scraped(slowed(healthy, [1], 1.5, turning(300, 10)), 15))

    assert [1] == [rank for rank, _, _ in told]
    assert 1.2 < verdict.culprits[0].slowdown < 1.3


def test_the_slowdown_of_a_periodic_rank_is_its_mean(healthy, slowed, turning):
    _, verdict = slow(slowed(healthy, [1], 1.5, turning(300, 60)))

    assert 1.18 < verdict.culprits[0].slowdown < 1.28
    assert abs(verdict.culprits[0].from_step - 300) <= 30
    assert verdict.culprits[0].to_step is None


@pytest.mark.parametrize("window", [1, 15])
def test_a_ramp_begins_where_it_leaves_its_peers(healthy, slowed, climbing, scraped, window):
    told, verdict = slow(scraped(slowed(healthy, [2], 1.5, climbing(300, 900)), window))

    assert [(2, "ramp", None)] == told
    assert abs(verdict.culprits[0].from_step - 300) <= 75
    assert verdict.culprits[0].evidence[0].text.endswith(", ever more")


def test_a_steady_rank_is_constant(healthy, slowed, steadily):
    told, _ = slow(slowed(healthy, [3], 1.3, steadily(300)))

    assert [(3, "constant", None)] == told


def test_work_of_a_rank_now_and_then_names_nobody(healthy, slowed):
    told, _ = slow(slowed(healthy, [0], 1.5, lambda step: (step % 20 == 0).astype(float)))

    assert [] == told


def test_turns_of_all_ranks_name_nobody(healthy, slowed, turning):
    told, _ = slow(slowed(healthy, range(4), 1.5, turning(300, 60)))

    assert [] == told


def test_what_takes_time_in_one_step_of_five_has_its_share_of_the_excess(healthy, slowed):
    run = slowed(healthy, [1], 2.5, lambda step: ((step >= 300) & (step % 5 == 0)).astype(float))
    run.windows["cpu_seconds"] += run.windows["own_seconds"] - healthy.windows["own_seconds"]
    done = diagnose(run)
    (finding,) = (each for each in done.findings if each.kind == "slow")

    assert "periodic" == finding.details["shape"]
    assert share_of_excess(done.grid, finding, "cpu") == pytest.approx(1.0, abs=0.15)


def with_pauses(run, slowed):
    """Three ranks once, for longer than anything below: no row of pauses is one rank's."""
    for rank, step in ((0, 100), (2, 250), (3, 700)):
        run = slowed(run, [rank], 4.0, between(step, 1))
    return run


@pytest.fixture(scope="module", params=[5, 6])
def paused(request, synthetic, slowed):
    run = synthetic(seed=request.param, world=8, steps=900, telemetry=False).run()
    return with_pauses(run, slowed)


def between(first, steps):
    return lambda step: ((step >= first) & (step < first + steps)).astype(float)


@pytest.mark.parametrize("first", [400, 412])
@pytest.mark.parametrize("lasting", [30, 40])
def test_what_came_and_went_within_two_blocks_is_named_where_it_cost_enough(
    paused, slowed, first, lasting
):
    """Blocks of a run of 900 steps hold 23 of them, and one with an end of it is half high."""
    _, verdict = slow(slowed(paused, [1], 1.6, between(first, lasting)))

    assert [1] == [culprit.rank for culprit in verdict.culprits]
    assert abs(verdict.culprits[0].from_step - first) <= 5
    assert abs(verdict.culprits[0].to_step - first - lasting) <= 5


def test_of_what_came_and_went_once_single_wild_windows_make_no_row_of_bursts(healthy, slowed):
    """On and off since the first of them is how often it is high, not how long that span is."""
    run = slowed(with_pauses(healthy, slowed), [1], 1.6, between(400, 30))
    _, verdict = slow(run)

    assert [(1, 400)] == [(culprit.rank, culprit.from_step) for culprit in verdict.culprits]


@pytest.mark.parametrize(("factor", "lasting"), [(1.6, 12), (1.15, 30)])
def test_a_burst_that_is_short_or_cost_little_accuses_nobody(paused, slowed, factor, lasting):
    told, _ = slow(slowed(paused, [1], factor, between(400, lasting)))

    assert [] == told
