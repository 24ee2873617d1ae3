"""Checkpoints that all ranks write are no slowness; what few write stays their own time."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.common_writes import without_common_writes
from lockstep.analyzer.align.grid import align

WINDOW, WRITTEN = 60, 0.4


@pytest.fixture
def windows(synthetic):
    """A grid of 4 ranks whose windows are of ten steps, without a checkpoint."""
    grid = align(synthetic().run())
    return dataclasses.replace(grid, from_step=10 * grid.from_step, to_step=10 * grid.to_step)


def writing(grid, ranks, window=WINDOW, share=WRITTEN):
    """These ranks write in one window, for a share of the own time that they have then."""
    own, written = grid.time["own"].copy(), np.zeros(grid.time["own"].shape)
    written[window, ranks] = share / (1.0 - share) * own[window, ranks]
    own += written
    return dataclasses.replace(grid, time={**grid.time, "own": own, "checkpoint": written})


def own(grid):
    return without_common_writes(grid).time["own"]


@pytest.mark.parametrize("ranks", [[0, 1], [0, 1, 2, 3]])
def test_what_most_ranks_write_is_taken_out_of_their_own_time(windows, ranks):
    told = writing(windows, ranks)

    assert told.time["own"][WINDOW, 0] > 1.5 * windows.time["own"][WINDOW, 0]
    np.testing.assert_allclose(windows.time["own"], own(told))


def test_what_one_rank_writes_alone_is_its_own(windows):
    told = writing(windows, [2])

    np.testing.assert_array_equal(told.time["own"], own(told))


@pytest.mark.parametrize("away", [-1, 1])
def test_who_tells_the_same_write_a_window_later_is_no_slower_for_it(windows, away):
    told = writing(windows, [0, 1, 2])
    late = told.time["checkpoint"].copy()
    late[WINDOW + away, 3] = 0.2 * told.time["own"][WINDOW + away, 3]
    time = {**told.time, "checkpoint": late}
    time["own"] = told.time["own"] + np.where(np.arange(4) == 3, late, 0.0)
    shifted = dataclasses.replace(told, time=time)

    np.testing.assert_allclose(windows.time["own"], own(shifted))


def test_a_run_without_a_window_is_as_it_was(windows):
    none = dataclasses.replace(
        windows,
        from_step=windows.from_step[:0],
        to_step=windows.to_step[:0],
        time={name: cells[:0] for name, cells in windows.time.items()},
    )

    assert without_common_writes(none) is none


@pytest.mark.parametrize("phase", ["checkpoint", "eval"])
def test_who_is_in_the_phase_all_the_time_keeps_what_it_costs(windows, phase):
    """Beside pauses of all: what follows one another without an end is not one pause of all."""
    base, paused = windows.time["own"], np.zeros(windows.time["own"].shape)
    paused[10::10] = 0.4
    paused[60:, 3] = 0.3
    time = {**windows.time, "own": base * (1 + paused), phase: base * paused}
    ratio = own(dataclasses.replace(windows, time=time)) / base

    alone = [at for at in range(62, len(base) - 1) if at % 10 not in (9, 0, 1)]
    np.testing.assert_allclose(1.3, ratio[alone, 3])
    np.testing.assert_allclose(1.0, ratio[:, :3])


def test_a_failed_scrape_spreads_the_same_pause_over_the_windows_that_it_left_out(windows):
    """Of four windows, in which the counters of one rank rise evenly; the others' in the second."""
    told = writing(windows, [0, 1, 2])
    spread = np.zeros(told.time["own"].shape)
    spread[WINDOW - 1 : WINDOW + 3, 3] = told.time["checkpoint"][WINDOW, 0] / 4
    for phase in ("checkpoint", "eval"):
        time = {**told.time, "own": told.time["own"] + spread}
        time |= {"checkpoint": np.zeros(spread.shape), phase: told.time["checkpoint"] + spread}

        np.testing.assert_allclose(
            windows.time["own"], own(dataclasses.replace(told, time=time)), rtol=0.02
        )


def test_who_evaluates_for_longer_than_the_others_keeps_the_rest(windows):
    told = writing(windows, [0, 1, 2, 3])
    paused = told.time["checkpoint"] * np.array([1.0, 1.0, 1.0, 3.0])
    time = {**told.time, "own": windows.time["own"] + paused, "eval": paused}
    left = own(dataclasses.replace(told, time=time | {"checkpoint": np.zeros(paused.shape)}))

    np.testing.assert_allclose(windows.time["own"][WINDOW, 0], left[WINDOW, 0], rtol=0.05)
    assert left[WINDOW, 3] > 2 * windows.time["own"][WINDOW, 3]


def test_of_whom_scrapes_cut_a_pause_off_no_pause_is_measured(windows):
    """The other ranks' middle is that of whole pauses: half of one makes nobody slow."""
    told = writing(windows, [0, 1, 2, 3])
    paused = told.time["checkpoint"]
    cells = told.time["own"].copy()
    paused[WINDOW + 1] = paused[WINDOW]
    cells[WINDOW + 1] += paused[WINDOW]
    cells[WINDOW + 1, 1:] = np.nan
    time = {**told.time, "own": cells, "eval": paused, "checkpoint": np.zeros(paused.shape)}
    left = own(dataclasses.replace(told, time=time))

    np.testing.assert_allclose(windows.time["own"][WINDOW], left[WINDOW], rtol=0.1)


def test_two_windows_away_it_is_a_write_of_its_own(windows):
    told = writing(windows, [0, 1, 2])
    late = told.time["checkpoint"].copy()
    late[WINDOW + 2, 3] = 0.2 * told.time["own"][WINDOW + 2, 3]
    alone = dataclasses.replace(told, time={**told.time, "checkpoint": late})

    assert told.time["own"][WINDOW + 2, 3] == own(alone)[WINDOW + 2, 3]


def test_windows_of_one_step_have_their_tag_and_are_left_alone(synthetic):
    told = writing(align(synthetic().run()), [0, 1, 2, 3])

    np.testing.assert_array_equal(told.time["own"], own(told))


def test_a_write_that_takes_all_of_the_own_time_leaves_a_gap_and_no_zero(windows):
    told = writing(windows, [0, 1, 2, 3])
    time = {**told.time, "checkpoint": np.where(told.time["checkpoint"] > 0, told.time["own"], 0.0)}
    cells = own(dataclasses.replace(told, time=time))

    assert np.isnan(cells[WINDOW]).all()
    assert np.isfinite(cells).sum() == cells.size - 4


def test_of_whom_no_window_shows_the_usual_step_how_long_it_wrote_is_not_known(windows):
    """What it waited in the phase is no writing, beside what others are known to have written."""
    told = writing(windows, [0, 1, 2, 3])
    paused = told.time["checkpoint"] + np.where(np.arange(4) == 0, 0.001, 0.0)
    time = {**told.time, "checkpoint": paused}
    written = without_common_writes(dataclasses.replace(told, time=time)).time["written"]

    assert np.isnan(written[WINDOW, 0])
    assert np.isfinite(written[WINDOW, 1:]).all()


def test_who_told_nothing_is_not_counted_among_the_ranks(windows):
    told = writing(windows, [0, 1])
    told.time["own"][:, 2:] = np.nan

    np.testing.assert_allclose(windows.time["own"][:, :2], own(told)[:, :2])
