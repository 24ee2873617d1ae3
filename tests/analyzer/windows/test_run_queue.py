"""Time that a rank waits for a processor is the scheduler's: known, and no noise."""

import dataclasses

import numpy as np
import pytest

from analyzer.align import align
from analyzer.model.effects import effects
from analyzer.model.run_queue import QUEUED, without_run_queue
from collector.contract.words import Phase


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


def test_who_waits_for_a_processor_more_than_others_is_slow_as_well(grid):
    assert [1] == [finding.rank for finding in effects(slower(grid, 1, 2.0, waits=True))]


def test_waiting_of_all_alike_accuses_nobody(grid):
    assert () == effects(grid)


def test_little_waiting_and_waiting_not_told_of_all_change_nothing(grid):
    little = {QUEUED: grid.signals[QUEUED] * 0.01}
    some = grid.signals[QUEUED].copy()
    some[:, 3] = np.nan

    for signals in ({}, little, {QUEUED: some}):
        assert without_run_queue(dataclasses.replace(grid, signals=signals)) is None
