"""The run as if its slow ranks were not: their own times, and the waiting for them, are gone."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.stragglers.model.adjusted_time import without_slow
from lockstep.analyzer.stragglers.model.effects import effects

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
