"""How far a series has moved: in its own noise, beyond its peers, and since when."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.causes.symptoms.gpu_state import contradiction, power_cap, thermal_throttling
from lockstep.analyzer.causes.symptoms.series import (
    EVENTS,
    MILD,
    SECONDS,
    STRONG,
    Sensor,
    deviations,
    level,
    symptom,
)
from lockstep.analyzer.verdict.case import accuses
from lockstep.analyzer.verdict.pipeline import diagnose

CLOCK = 'lockstep_gpu_clock_hertz{domain="sm"}'
CAP = 'lockstep_gpu_clock_event_seconds_total{reason="sw_power_cap"}'

DRAWN = "lockstep_gpu_power_watts"
LIMIT = 'lockstep_gpu_power_limit_watts{kind="enforced"}'
DEGREES = 'lockstep_gpu_temperature_celsius{sensor="gpu"}'
MEMORY = 'lockstep_gpu_temperature_celsius{sensor="memory"}'
UNIT = Sensor(1e-6)


@pytest.fixture
def case(synthetic, fault):
    """A grid of 4 ranks and 240 windows, and the finding that rank 2 is slow from 80 on."""
    diagnosis = diagnose(synthetic(faults=[fault("compute", 2, 1.5, 80)]).run())
    finding = next(each for each in diagnosis.findings if accuses(each))
    return diagnosis.grid, dataclasses.replace(finding, first=80, last=None)


def noisy(grid, sigma=1.0, seed=0):
    return sigma * np.random.default_rng(seed).standard_normal(grid.time["own"].shape)


def far(grid, finding, cells, sensor=UNIT):
    return deviations(level(grid, finding, cells), sensor)


def told(grid, finding, cells, sensor=UNIT):
    return symptom(grid, finding, cells, sensor, lambda _: "it moved", "")


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_how_far_a_series_moved_does_not_depend_on_its_unit(case, scale):
    grid, finding = case
    cells = noisy(grid)
    cells[80:, 2] += 5.0

    sensor = Sensor(1e-6 * scale)
    assert far(grid, finding, cells) == pytest.approx(far(grid, finding, scale * cells, sensor))
    assert far(grid, finding, cells) > STRONG


def test_chance_moves_no_series(case):
    grid, finding = case
    moved = [far(grid, finding, noisy(grid, seed=seed)) >= MILD for seed in range(200)]

    assert 0.02 > np.mean(moved)


def test_the_same_step_is_less_in_a_noisier_series(case):
    grid, finding = case
    step = np.zeros(grid.time["own"].shape)
    step[80:, 2] = 6.0
    quiet, loud = (far(grid, finding, step + noisy(grid, sigma)) for sigma in (1.0, 10.0))

    assert quiet > STRONG > MILD > loud


def test_what_the_sensor_cannot_tell_apart_has_not_moved(case):
    grid, finding = case
    cells = np.full(grid.time["own"].shape, 60.0)
    cells[80:, 2] += 1.0

    assert 1.0 == pytest.approx(far(grid, finding, cells, Sensor(1.0)))
    assert not told(grid, finding, cells, Sensor(1.0)).seen
    assert told(grid, finding, cells, Sensor(0.1)).grave


@pytest.mark.parametrize("lower", [False, True])
def test_what_happens_to_all_is_nobodys_own(case, lower):
    grid, finding = case
    cells = noisy(grid)
    cells[80:] += -5.0 if lower else 5.0

    assert far(grid, finding, cells, UNIT._replace(lower=lower)) < MILD


def test_peers_that_are_better_off_make_no_trouble(case):
    """They wait, and draw less; the slow one is as it was."""
    grid, finding = case
    cells = 100.0 + noisy(grid)
    cells[80:, [0, 1, 3]] -= 50.0

    assert far(grid, finding, cells) < MILD


def test_from_the_start_the_peers_are_what_is_usual(case):
    grid, finding = case
    finding = dataclasses.replace(finding, first=0)
    cells = noisy(grid)
    cells[:, 2] += 50.0

    assert far(grid, finding, cells) > STRONG
    cells[:, [0, 1, 3]] = np.nan
    assert np.isnan(far(grid, finding, cells)), "nobody knows what is usual"
    assert told(grid, finding, cells) is None
    assert far(grid, finding, cells, SECONDS) > STRONG, "none is healthy"


def test_few_events_may_be_chance_and_many_not(case):
    grid, finding = case
    seconds = float((grid.end - grid.start)[80:][~grid.masked[80:]].sum())
    before = float((grid.end - grid.start)[:80][~grid.masked[:80]].sum())

    def counted(events):
        cells = np.zeros(grid.time["own"].shape)
        cells[80:, 2] = events / seconds
        return far(grid, finding, cells, EVENTS)

    assert 2 * min(before, seconds) / seconds == pytest.approx(counted(2))
    assert counted(1) < MILD < STRONG < counted(40)


def test_a_symptom_began_where_the_series_changed_and_not_at_a_chance_crossing(case):
    grid, finding = case
    cells = noisy(grid)
    cells[80:, 2] += 8.0
    cells[[10, 30], 2] += 9.0
    found = told(grid, finding, cells)

    window = float(np.median(grid.end - grid.start))
    assert found.seen
    assert abs(found.began) <= 2 * window
    assert found.with_onset


def test_what_began_long_after_the_onset_is_told_so(case):
    grid, finding = case
    cells = noisy(grid, 0.5)
    cells[200:, 2] += 30.0
    found = told(grid, finding, cells)

    assert found.began == pytest.approx(float(grid.start[200] - grid.start[80]), rel=0.02)


@pytest.mark.parametrize(("kind", "where"), [("thermal", "hw_thermal"), ("power", "sw_power_cap")])
def test_throttled_at_the_highest_clock_contradicts_itself(synthetic, fault, kind, where):
    diagnosis = diagnose(synthetic(faults=[fault(kind, 2, 1.5, 80)]).run())
    finding = next(each for each in diagnosis.findings if accuses(each))
    grid = diagnosis.grid
    clock = grid.signals[CLOCK].copy()
    clock[:, 2] = np.nanmax(clock)
    stuck = dataclasses.replace(grid, signals={**grid.signals, CLOCK: clock})

    assert any(where in key for key in grid.signals)
    assert not contradiction(grid, finding).seen
    assert contradiction(stuck, finding).seen
    assert "one of the two is wrong" in contradiction(stuck, finding).text


@pytest.mark.parametrize(("met", "doubted"), [(0.3, False), (0.0, True)])
def test_a_brake_in_bursts_contradicts_no_clock_that_some_scrapes_met_low(
    synthetic, fault, met, doubted
):
    diagnosis = diagnose(synthetic(faults=[fault("power", 2, 1.8, 80)]).run())
    grid = diagnosis.grid
    finding = next(each for each in diagnosis.findings if accuses(each))
    signals = {key: cells.copy() for key, cells in grid.signals.items()}
    signals[CAP][:, 2] = np.where(np.arange(len(grid.start)) < 80, 0.0, 0.6)
    clock = signals[CLOCK]
    highest = np.nanmax(clock)
    low = np.random.default_rng(1).random(len(clock)) < met
    clock[:, 2] = np.where(low & (np.arange(len(clock)) >= 80), 0.3 * highest, highest)

    found = contradiction(dataclasses.replace(grid, signals=signals), finding)

    assert doubted is found.seen


def telling(grid, models="", **series):
    """The grid in which ranks tell these constants of their GPUs, four each, and nothing else."""
    told = {"drawn": DRAWN, "limit": LIMIT, "degrees": DEGREES, "memory": MEMORY}
    shape = grid.time["own"].shape
    ranks = tuple(
        dataclasses.replace(info, model=models[place] if models else "")
        for place, info in enumerate(grid.ranks)
    )
    signals = {told[name]: np.tile(np.array(each, float), (shape[0], 1))
               for name, each in series.items()}  # fmt: skip
    return dataclasses.replace(grid, signals=signals, ranks=ranks)


def always(finding):
    return dataclasses.replace(finding, first=0)


def test_a_limit_below_that_of_its_peers_and_what_they_draw_is_a_cap(case):
    """Its mean stays below the limit: a step has parts that draw little."""
    grid, finding = case
    capped = telling(grid, drawn=[259, 260, 213, 258], limit=[400, 400, 266, 400])
    told = power_cap(capped, always(finding))

    assert told.states[0] == "strong"
    assert told.text == "power 213 W at a limit of 266 W, lowered from 400 W"


@pytest.mark.parametrize(("drawn", "limit"), [
    ([320, 321, 320, 319], [400, 400, 360, 400]),
    ([320, 321, 120, 319], [400, 400, 266, 400]),
])  # fmt: skip
def test_a_lower_limit_that_nothing_reaches_is_no_cap(case, drawn, limit):
    """Nobody draws as much, or its GPU has little to do."""
    grid, finding = case

    assert not power_cap(telling(grid, drawn=drawn, limit=limit), always(finding)).seen


def test_a_limit_that_was_lower_before_the_slowdown_is_a_milder_reason(case):
    grid, finding = case
    capped = telling(grid, drawn=[620, 621, 585, 619], limit=[700, 700, 632, 700])
    told = power_cap(capped, finding)

    assert told.states[0] == "mild"
    assert told.text == "power 585 W at a limit of 632 W, peers 700 W"


def test_the_limit_of_another_model_is_no_lowered_one(case):
    grid, finding = case
    told = {"drawn": [560, 561, 340, 341], "limit": [700, 700, 350, 350]}

    assert power_cap(telling(grid, **told), always(finding)).seen
    assert not power_cap(telling(grid, "aabb", **told), always(finding)).seen


def test_what_is_cooler_than_its_peers_is_not_throttled_for_heat(case):
    grid, finding = case
    told = thermal_throttling(telling(grid, degrees=[56, 57, 51, 56]), always(finding))

    assert told.states == ("none",)
    assert told.text == "at 51 °C it is cooler than its peers (56 °C)"


@pytest.mark.parametrize("told", [
    {"degrees": [56, 57, 56, 56]},
    {"degrees": [56, 57, 60, 56]},
    {"degrees": [56, 57, 51, 56], "memory": [80, 80, 95, 81]},
    {},
])  # fmt: skip
def test_heat_is_not_excluded_where_anything_may_be_hot(case, told):
    grid, finding = case

    assert thermal_throttling(telling(grid, **told), always(finding)) is None


def test_heat_is_not_excluded_of_what_grew_hotter(case):
    grid, finding = case
    warmer = telling(grid, degrees=[56, 57, 40, 56])
    warmer.signals[DEGREES][80:, 2] = 51.0

    assert thermal_throttling(warmer, finding) is None


def test_nobody_can_contradict_who_tells_nothing(case):
    grid, finding = case

    assert contradiction(dataclasses.replace(grid, signals={}), finding) is None
