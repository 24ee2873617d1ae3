"""What slow ranks cost is at most what steps are longer than while nobody was slow."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.shapes.run import Finding
from lockstep.analyzer.stragglers.step_time import bill, step_times
from lockstep.analyzer.verdict.cost import DAY_SECONDS, bounds_what_if, loss
from lockstep.analyzer.verdict.pipeline import diagnose

SLOW, SINCE, STEPS = 5, 200, 400


@pytest.fixture(scope="module")
def healthy(synthetic):
    return synthetic(seed=3, world=8, steps=STEPS, telemetry=False).run()


def longer(run, own, wall):
    """The run with own times and step times longer by factors of (rank, step)."""
    windows = run.windows.copy()
    step, rank = windows["from_step"].to_numpy(), windows["rank"].to_numpy()
    more = {"own_seconds": own(rank, step), "wall_seconds": wall(rank, step)}
    usual = windows["own_seconds"].to_numpy()
    windows["own_seconds"] = usual * more["own_seconds"]
    windows["backward_seconds"] += usual * (more["own_seconds"] - 1.0)
    windows["wall_seconds"] += usual * (more["wall_seconds"] - 1.0)
    waits = usual * (more["wall_seconds"] - more["own_seconds"])
    windows["collective_seconds"] = np.maximum(windows["collective_seconds"] + waits, 0.0)
    return dataclasses.replace(run, windows=windows)


def culprit(rank, step, factor=1.5):
    return np.where((rank == SLOW) & (step >= SINCE), factor, 1.0)


def about(rank, factor, first=SINCE, last=None):
    """The finding that a rank, or None = a link, is slow in these windows."""
    kind = "link" if rank is None else "slow"
    return Finding("test", kind, rank, first, last, factor, (factor, factor), 9.0, {}, "", {})


def late(rank, step, factor=1.5):
    return np.where(step >= SINCE, factor, 1.0)


@pytest.mark.parametrize(("felt", "low", "high"), [(1.5, 1.37, 1.45), (1.2, 1.15, 1.27)])
def test_what_a_pipeline_hides_of_a_slow_rank_is_not_told_as_lost(healthy, felt, low, high):
    """The steps of all are longer by a part only of what its own time is; single long ones too."""
    run = longer(healthy, culprit, lambda rank, step: late(rank, step, felt))
    verdict = diagnose(run).verdict

    assert [(SLOW, "page")] == [(one.rank, one.tier) for one in verdict.culprits]
    assert low < verdict.slowdown < high
    assert verdict.slowdown_interval[0] <= verdict.slowdown <= verdict.slowdown_interval[1]


@pytest.mark.parametrize("until", [SINCE, 100])
def test_steps_that_were_longer_for_all_before_do_not_hide_what_a_rank_costs(healthy, until):
    """As of a cold cache: at the same work they were as long as they are without it."""

    def cold(rank, step):
        return np.where(step < until, 1.5, 1.0)

    run = longer(
        healthy,
        lambda rank, step: culprit(rank, step) * cold(rank, step),
        lambda rank, step: late(rank, step) * cold(rank, step),
    )
    verdict = diagnose(run).verdict

    assert [(SLOW, "page")] == [(one.rank, one.tier) for one in verdict.culprits]
    assert verdict.slowdown == pytest.approx(1.41, abs=0.04)


def test_a_slow_rank_and_a_link_are_billed_together(healthy):
    """Of steps 1.8x as long 1.3x is the rank's own time; the link is the rest."""
    run = longer(
        healthy,
        lambda rank, step: culprit(rank, step, 1.3),
        lambda rank, step: late(rank, step, 1.8),
    )
    grid = align(run)
    slow, link = about(SLOW, 1.3), about(None, 1.4)
    alone = [bill(grid, [slow], None), bill(grid, [], link)]
    both = bill(grid, [slow], link)

    calm = float(np.median(step_times(grid)[:SINCE]))
    lost = float(np.sum(step_times(grid)[SINCE:] - calm)) * len(grid.ranks) / 3600.0
    assert max(one.lost_gpu_hours for one in alone) < both.lost_gpu_hours
    assert both.lost_gpu_hours == pytest.approx(lost, rel=0.15)
    assert both.interval[0] <= both.slowdown <= both.interval[1]
    told = loss(grid, both, [slow], link, [])
    assert told.gpu_hours == both.lost_gpu_hours
    assert told.per_day.gpu_hours == pytest.approx(
        both.lost_gpu_hours * DAY_SECONDS / told.per_day.over_seconds, rel=0.01
    )


def test_of_a_link_that_costs_more_than_steps_are_longer_the_steps_are_believed(healthy):
    run = longer(
        healthy,
        lambda rank, step: culprit(rank, step, 1.3),
        lambda rank, step: late(rank, step, 1.4),
    )
    grid = align(run)
    slow, link = about(SLOW, 1.3), about(None, 3.0)

    assert bill(grid, [slow], link).slowdown < 1.45


def test_a_rank_and_a_link_one_after_the_other_cost_what_steps_are_longer_by(healthy):
    def between(first, last):
        return lambda step: (step >= first) & (step < last)

    early, late_half = between(100, 200), between(200, 300)
    run = longer(
        healthy,
        lambda rank, step: np.where((rank == SLOW) & early(step), 2.0, 1.0),
        lambda rank, step: np.where(early(step) | late_half(step), 2.0, 1.0),
    )
    grid = align(run)
    slow, link = about(SLOW, 2.0, 100, 200), about(None, 2.0, 200, 300)
    times, calm = step_times(grid), np.r_[0:100, 300:STEPS]
    longer_by = float(np.sum(times[100:300] - np.median(times[calm])))

    both = bill(grid, [slow], link).lost_gpu_hours
    assert both == pytest.approx(longer_by * len(grid.ranks) / 3600.0, rel=0.05)


def test_a_fix_gives_back_the_same_beside_a_link_at_another_time(healthy):
    """Steps that only the link makes longer are none of those without trouble."""

    def between(first, last, factor):
        return lambda rank, step: np.where((step >= first) & (step < last), factor, 1.0)

    mine, links = between(100, 200, 1.5), between(200, STEPS, 1.5)
    grid = align(
        longer(
            healthy,
            lambda rank, step: np.where(rank == SLOW, mine(rank, step), 1.0),
            lambda rank, step: mine(rank, step) * links(rank, step),
        )
    )
    slow, link = [about(SLOW, 1.5, 100, 200)], about(None, 1.5, 200)
    told = bounds_what_if(grid, slow, bill(grid, slow, link), [link])

    assert told["fixes"][0]["gain"] == pytest.approx(1 - 1 / 1.4, abs=0.04)


def test_more_work_lengthens_neither_exchanges_nor_bubbles(healthy):
    """Twice the micro-batches for all from half of the fault on: what is beside work stays."""
    begin, bubble = 300, 1.0

    def work(rank, step):
        return np.where(step >= begin, 2.0, 1.0)

    run = longer(
        healthy,
        lambda rank, step: culprit(rank, step) * work(rank, step),
        lambda rank, step: late(rank, step) * work(rank, step) + bubble,
    )
    grid = align(run)
    own = np.median(grid.time["own"][begin:, [SLOW]] - grid.time["own"][begin:, [0]])
    usual = np.median(grid.time["own"][SINCE:begin, [SLOW]] - grid.time["own"][SINCE:begin, [0]])

    told = bill(grid, [about(SLOW, 1.5)], None)
    lost = (own * (STEPS - begin) + usual * (begin - SINCE)) * len(grid.ranks) / 3600.0
    assert told.lost_gpu_hours == pytest.approx(lost, rel=0.12)
    assert told.interval[0] <= told.slowdown <= told.interval[1]


def test_a_single_stand_still_of_all_does_not_hide_what_a_rank_costs(healthy):
    def still(rank, step):
        return np.where(step == SINCE // 2, 200.0, 0.0)

    runs = [
        longer(healthy, culprit, late),
        longer(healthy, culprit, lambda rank, step: late(rank, step) + still(rank, step)),
    ]
    without, told = (bill(align(run), [about(SLOW, 1.5)], None) for run in runs)

    assert told.slowdown == pytest.approx(without.slowdown, rel=0.01)


def test_a_link_that_comes_and_goes_costs_what_steps_are_longer_by(healthy):
    """Three times as long in every third step: the mean is what it costs, no step's level."""

    def flapping(rank, step):
        return np.where((step >= SINCE) & (step % 3 == 0), 3.0, 1.0)

    grid = align(longer(healthy, lambda rank, step: np.ones(len(step)), flapping))
    times = step_times(grid)
    mean = float(times[SINCE:].mean() / np.median(times[:SINCE]))

    told = bill(grid, [], about(None, mean))
    assert told.slowdown == pytest.approx(mean, rel=0.03)


def test_without_steps_to_compare_with_a_pipeline_may_hide_all_of_it(synthetic):
    run = synthetic(seed=3, world=8, steps=80, telemetry=False).run()
    staged = tuple(dataclasses.replace(info, pp=info.rank // 4) for info in run.ranks)
    slow = longer(
        dataclasses.replace(run, ranks=staged),
        lambda rank, step: np.where(rank == SLOW, 1.5, 1.0),
        lambda rank, step: np.full(len(step), 1.5),
    )
    told = bill(align(slow), [about(SLOW, 1.5, first=0)], None)

    assert told.slowdown > 1.2
    assert told.interval[0] == 1.0


def test_ranks_of_whom_nothing_is_known_are_taken_to_be_as_the_others(healthy):
    """That they may be slow as well is what the lower end of the interval is for."""
    grid = align(longer(healthy, culprit, late))
    own = grid.time["own"].copy()
    own[:, 7] = np.nan
    silent = dataclasses.replace(grid, time={**grid.time, "own": own})
    known, told = (bill(each, [about(SLOW, 1.5)], None) for each in (grid, silent))

    assert told.slowdown == pytest.approx(known.slowdown, rel=0.01)
    assert told.interval[0] < known.interval[0] - 0.05
