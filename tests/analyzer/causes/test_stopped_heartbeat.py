"""How much of a slowdown an old heartbeat explains: its pause, also where a scrape parts it."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.causes.symptoms.host import stands_still
from lockstep.analyzer.verdict.case import accuses
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract import metrics

RANK, BEGIN, WINDOW = 2, 80, 15.0


@pytest.fixture
def case(synthetic, fault):
    """A grid of 240 windows of 15 s and one step of 10 s, and the finding: rank 2, from 80 on."""
    done = diagnose(synthetic(faults=[fault("compute", RANK, 1.5, BEGIN)]).run())
    finding = next(each for each in done.findings if accuses(each))
    windows, shape = len(done.grid.start), done.grid.time["own"].shape
    grid = dataclasses.replace(
        done.grid,
        start=WINDOW * np.arange(windows),
        end=WINDOW * np.arange(1, windows + 1),
        to_step=done.grid.from_step + 1,
        time={**done.grid.time, "own": np.full(shape, 10.0), "cpu": np.zeros(shape)},
    )
    return grid, dataclasses.replace(finding, first=BEGIN, last=None)


def seen(case, excess, ages):
    """The symptom, with seconds more of own time and of the heartbeat's age by window."""
    grid, finding = case
    own, age = grid.time["own"].copy(), np.zeros(grid.time["own"].shape)
    for cells, told in ((own, excess), (age, ages)):
        for window, seconds in told.items():
            cells[window, RANK] += seconds
    signals = {metrics.TRAIN_HEARTBEAT_AGE.series(): age}
    grid = dataclasses.replace(grid, time={**grid.time, "own": own}, signals=signals)
    return stands_still(grid, finding)


def test_of_a_rank_that_is_slow_throughout_a_pause_in_every_third_window_explains_a_third(case):
    windows = range(BEGIN, 240)
    told = seen(case, dict.fromkeys(windows, 5.0), dict.fromkeys(windows[1::3], 4.0))

    assert not told.seen
    assert not told.grave
    assert "stopped for 4 s" in told.text
    assert "with 33% of the excess" in told.text


@pytest.mark.parametrize("other", [99, 101])
def test_the_part_of_a_pause_beyond_the_scrape_that_saw_it_counts(case, other):
    told = seen(case, {100: 10.0, other: 10.0, 150: 5.0}, {100: 20.0})

    assert told.grave
    assert "stopped for 20 s" in told.text
    assert "with 80% of the excess in and beside such windows" in told.text


def test_what_is_beside_a_pause_counts_for_no_more_than_the_pause(case):
    assert not seen(case, {100: 5.0, 101: 20.0}, {100: 6.0}).seen


def test_a_window_after_a_gap_is_not_beside_a_pause(case):
    grid, finding = case
    later = np.where(np.arange(len(grid.start)) > 100, 600.0, 0.0)
    apart = dataclasses.replace(grid, start=grid.start + later, end=grid.end + later)

    assert not seen((apart, finding), {100: 5.0, 101: 15.0}, {100: 20.0}).seen
    assert seen(case, {100: 5.0, 101: 15.0}, {100: 20.0}).grave


def test_a_faster_window_beside_a_pause_takes_nothing_from_it(case):
    assert seen(case, {100: 20.0, 101: -5.0, 150: 10.0}, {100: 20.0}).grave


def test_of_pauses_that_one_scrape_in_five_can_meet_a_fifth_is_all(case):
    """6 s that scrapes 15 s apart see only while the heartbeat is older than 3 s."""
    grid, finding = case
    rare = dataclasses.replace(grid, scrape_seconds=15.0), finding
    windows = range(BEGIN, 240)
    told = seen(rare, dict.fromkeys(windows, 6.0), dict.fromkeys(windows[::5], 5.0))
    seldom = seen(rare, dict.fromkeys(windows, 6.0), dict.fromkeys(windows[::20], 5.0))

    assert told.grave
    assert "saw as many" in told.text
    assert "with 20% of the excess in and beside such windows; scrapes so far apart" in told.text
    assert not seldom.grave


def test_of_a_few_short_pauses_that_no_scrape_met_nobody_knows(case):
    grid, finding = case
    rare = dataclasses.replace(grid, scrape_seconds=15.0), finding
    short = dict.fromkeys(range(100, 104), 5.0)

    assert seen(rare, short, {}) is None
    assert "its heartbeat went on" == seen(case, short, {}).text
