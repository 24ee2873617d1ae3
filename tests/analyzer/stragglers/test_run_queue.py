"""Time that a rank waits for a processor is the scheduler's: known, and no noise."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.causes.symptoms.host import processor
from lockstep.analyzer.stats.processor import QUEUE as QUEUED
from lockstep.analyzer.stragglers.model.adjusted_time import QUOTA, without_run_queue, without_slow
from lockstep.analyzer.stragglers.model.effects import effects
from lockstep.collector.contract.words import Phase


@pytest.fixture
def grid(synthetic):
    """Four ranks; each waits for a processor a third of its own time, as it comes."""
    whole = align(synthetic(seed=11, world=4, steps=300, telemetry=False).run())
    own = whole.time["own"]
    waited = 0.5 * own * np.random.default_rng(5).exponential(1.0, own.shape)
    time = {**whole.time, "own": own + waited, "cpu": own}
    signals = {QUEUED: waited / whole.time["wall"]}
    return dataclasses.replace(whole, time=time, signals=signals)


def slower(grid, rank, factor, *, waits):
    """By a factor from step 150 on, of its own or by waiting for a processor."""
    own, since = grid.time["own"].copy(), grid.from_step >= 150
    more = (factor - 1.0) * own[since, rank]
    own[since, rank] += more
    signals = dict(grid.signals)
    if waits:
        signals[QUEUED] = signals[QUEUED].copy()
        signals[QUEUED][since, rank] += more / grid.time["wall"][since, rank]
    time = {**grid.time, "own": own, Phase.FORWARD: own / 2}
    return dataclasses.replace(grid, time=time, signals=signals)


def test_what_the_scheduler_hides_is_found_where_it_is_counted(grid):
    slow = slower(grid, 2, 1.12, waits=False)
    uncounted = dataclasses.replace(slow, signals={})

    assert [2] == [finding.rank for finding in effects(slow)]
    assert () == effects(uncounted)


@pytest.mark.parametrize(("factor", "named"), [(1.11, []), (1.4, [2])])
def test_what_came_and_went_must_be_as_large_in_all_of_own_time(grid, factor, named):
    """1.11x is less than 1.10x with the waiting: a burst of another process looks the same."""
    computing, span = grid.time["cpu"], (grid.from_step >= 100) & (grid.from_step < 200)
    noise = np.random.default_rng(5).normal(1.0, 0.2, computing.shape)
    waited, own = 0.5 * computing * noise, computing.copy()
    own[span, 2] *= factor
    time = {**grid.time, "own": own + waited, "cpu": own, Phase.FORWARD: own + waited}
    told = {QUEUED: waited / grid.time["wall"]}
    found = effects(dataclasses.replace(grid, time=time, signals=told))

    assert named == [one.rank for one in found]
    assert all(90 < one.first <= 100 and one.last == 200 for one in found)


def test_who_waits_for_a_processor_more_than_others_is_slow_as_well(grid):
    assert [1] == [finding.rank for finding in effects(slower(grid, 1, 2.0, waits=True))]


@pytest.mark.parametrize(("waits", "states"), [(True, ("strong",)), (False, ("none",))])
def test_that_a_processor_lacks_is_told_by_the_excess_of_a_step(grid, waits, states):
    """Steps that the waiting makes longer have hardly more of it in each second."""
    slow = slower(grid, 1, 2.0, waits=waits)
    waited = slow.signals[QUEUED] * slow.time["wall"]
    since = slow.from_step >= 150
    longer = np.where(since, np.mean(waited[since, 1]) / np.mean(waited[~since, 1]), 1.0)
    wall = slow.time["wall"] * longer[:, None]
    slow = dataclasses.replace(
        slow, time={**slow.time, "wall": wall}, signals={QUEUED: waited / wall}
    )
    (finding,) = [one for one in effects(slow) if one.rank == 1]
    symptom = processor(slow, finding)

    assert states == symptom.states
    assert ("of the excess it was ready to run" in symptom.text) == waits


def test_a_quota_is_nobody_elses_doing_and_no_noise(grid):
    """The kernel counts it as waiting for a processor too; the scheduler's part hides it else."""
    slow = slower(grid, 1, 1.25, waits=True)
    held = slow.signals[QUEUED] - grid.signals[QUEUED]
    told = dataclasses.replace(slow, signals={**slow.signals, QUOTA: held})

    assert () == effects(slow)
    assert [1] == [finding.rank for finding in effects(told)]


def test_waiting_of_all_alike_accuses_nobody(grid):
    assert () == effects(grid)


def test_little_waiting_and_waiting_not_told_of_all_change_nothing(grid):
    little = {QUEUED: grid.signals[QUEUED] * 0.01}
    some = grid.signals[QUEUED].copy()
    some[:, 3] = np.nan

    for signals in ({}, little, {QUEUED: some}):
        assert without_run_queue(dataclasses.replace(grid, signals=signals)) is None


def loading(grid, rank, share, noise=0.25):
    """From step 150 on loading takes a share of own time; computing takes what its core lets it."""
    own, since = grid.time["cpu"], grid.from_step >= 150
    waited = grid.signals[QUEUED] * grid.time["wall"]
    blocks = np.random.default_rng(7).normal(0.0, noise, (len(own) // 25 + 1, own.shape[1]))
    computing = own * np.exp(np.repeat(blocks, 25, axis=0)[: len(own)])
    data = np.full_like(own, 1e-4)
    data[since, rank] = share * np.median(own)
    time = {**grid.time, "own": computing + data + waited, "cpu": computing, Phase.DATA: data}
    time |= {Phase.FORWARD: computing + waited, Phase.OTHER: np.zeros_like(own)}
    return dataclasses.replace(grid, time=time)


def test_loading_is_told_apart_from_computing_that_others_on_the_core_disturb(grid):
    (found,) = effects(loading(grid, 2, 0.4))

    assert 2 == found.rank
    assert 1.1 < found.slowdown < 1.7
    assert () == effects(loading(grid, 2, 0.0))


def test_what_only_moves_between_the_parts_of_own_time_slows_nobody(grid):
    """As a program that begins to copy batches in its loader, and no more in its step."""
    slow = loading(grid, 2, 0.6)
    own = grid.time["cpu"] + grid.signals[QUEUED] * grid.time["wall"]
    time = {**slow.time, "own": own, "cpu": grid.time["cpu"]}
    time[Phase.FORWARD] = own - slow.time[Phase.DATA]

    assert () == effects(dataclasses.replace(slow, time=time))


def test_who_waits_longer_for_another_stage_is_not_slow(grid):
    """Programs that name no phases have waits in `other`; own time has none."""
    since = grid.from_step >= 150
    other = np.zeros_like(grid.time["own"])
    other[since, 2] = 0.6 * np.median(grid.time["own"])

    assert () == effects(dataclasses.replace(grid, time={**grid.time, Phase.OTHER: other}))


def test_of_two_ranks_that_differ_what_comes_to_both_names_neither(synthetic):
    """The same seconds are a larger share of the shorter own time."""
    whole = align(synthetic(seed=11, world=2, steps=300, telemetry=False).run())
    own, since = whole.time["own"].copy(), whole.from_step >= 150
    own[:, 0] *= 0.6
    own[since] += 0.3 * np.median(whole.time["own"])
    both = dataclasses.replace(whole, time={**whole.time, "own": own, Phase.FORWARD: own / 2})

    assert () == effects(both)


def test_of_two_ranks_one_is_named_whose_peer_became_slower_as_well(synthetic):
    """As the machine did other work: what both have in common is no reason to clear either."""
    whole = align(synthetic(seed=11, world=2, steps=300, telemetry=False).run())
    own, since = whole.time["own"].copy(), whole.from_step >= 150
    own[since] *= 1.2
    own[since, 0] *= 1.3
    slow = dataclasses.replace(whole, time={**whole.time, "own": own, Phase.FORWARD: own / 2})

    assert [0] == [finding.rank for finding in effects(slow)]


# The run as if its slow ranks were not: their own times, and the waiting for them, are gone.

FIRST = 150


@pytest.fixture(scope="module")
def healthy(synthetic):
    return align(synthetic(world=6, steps=300, telemetry=False).run())


def slowed(grid, column, seconds, first=FIRST):
    """Everybody else waits for a rank that takes so much longer from a window on."""
    longer = np.zeros_like(grid.time["own"])
    longer[first:, column] = seconds
    waits = longer.max(axis=1, keepdims=True) - longer
    more = {"own": longer, "collective": waits, "grad_sync": waits, "wall": longer + waits}
    return dataclasses.replace(
        grid, time={**grid.time, **{name: grid.time[name] + more[name] for name in more}}
    )


@pytest.mark.parametrize("first", [0, FIRST])
def test_where_nobody_is_slow_or_somebody_always_was_nothing_is_left_to_know(healthy, first):
    grid = slowed(healthy, 2, 0.03, first)

    assert without_slow(healthy, ()) is None
    assert (without_slow(grid, effects(grid)) is None) == (first == 0)


@pytest.mark.parametrize("others", [(), (4,)])
def test_own_times_and_waits_are_as_if_nobody_were_slow(healthy, others):
    grid = slowed(healthy, 2, 0.03)
    for other in others:
        both = slowed(healthy, other, 0.01)
        own = grid.time["own"] + both.time["own"] - healthy.time["own"]
        grid = dataclasses.replace(grid, time={**grid.time, "own": own})
        # It waits less for the slower one.
        less = {n: grid.time[n].copy() for n in ("collective", "grad_sync")}
        for cells in less.values():
            cells[FIRST:, other] -= 0.01
        grid = dataclasses.replace(grid, time={**grid.time, **less})
    rest = without_slow(grid, effects(grid))

    assert rest is not None
    for name in ("own", "collective", "grad_sync"):
        now, then = (each.time[name][FIRST:] for each in (rest, healthy))
        assert np.median(now, axis=0) == pytest.approx(np.median(then, axis=0), abs=2e-3), name
        np.testing.assert_array_equal(rest.time[name][:FIRST, 0], grid.time[name][:FIRST, 0])


def test_nobody_waits_less_than_when_nobody_is_slow(healthy):
    """As of a rank that is late in one group, while the others' transfers are their own."""
    grid = slowed(healthy, 2, 0.03)
    alone = {name: healthy.time[name] for name in ("collective", "grad_sync")}
    grid = dataclasses.replace(grid, time={**grid.time, **alone})
    rest = without_slow(grid, effects(grid))

    assert rest is not None
    usual = np.median(healthy.time["collective"], axis=0)
    assert (np.median(rest.time["collective"][FIRST:], axis=0) >= 0.9 * usual).all()
