"""A link fault reaches its factor on a link that nobody described to it."""

import random
from collections.abc import Callable

import pytest

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.network.steering import Steering, middle
from lockstep.workloads.recording import WARMUP_STEPS

HEALTHY, BITS, STEPS, BEGIN = 0.060, 5e6, 200, 60
Extra = Callable[[LinkSetting], float]


def fault(kind: FaultKind, factor: float | None, **more: object) -> Fault:
    return Fault(kind, None, 2, factor, BEGIN, STEPS, **more)  # type: ignore[arg-type]


def slow(bits: float, hidden: float) -> Extra:
    """What a rate costs where some transfer runs beside computation."""
    return lambda setting: max(0.0, bits / setting.rate - hidden) if setting.rate else 0.0


def late(rounds: float, hidden: float) -> Extra:
    return lambda setting: max(0.0, rounds * setting.delay - hidden)


def steps_of(steering: Steering, extra: Extra, noise: float, seed: int) -> list[float]:
    """Wall time of every step of a run whose link is steered."""
    dice = random.Random(seed)
    taken = []
    for step in range(STEPS):
        if step == BEGIN:
            steering.begin(BITS, 30.0)
        setting = steering.setting(step)
        seconds = (HEALTHY + extra(setting)) * (1.0 + dice.gauss(0.0, noise))
        steering.observe(step, seconds)
        taken.append(seconds)
    return taken


@pytest.mark.sweep
@pytest.mark.parametrize("factor", [1.1, 1.3, 2.0])
@pytest.mark.parametrize("hidden", [0.0, 0.004, 0.030])
@pytest.mark.parametrize("known", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_bandwidth_fault_reaches_its_factor(
    factor: float, hidden: float, known: float, seed: int
) -> None:
    steering = Steering(fault(FaultKind.LINK_BANDWIDTH, factor))
    taken = steps_of(steering, slow(BITS * known, hidden), 0.03, seed)
    measured = middle(taken[BEGIN:]) / middle(taken[WARMUP_STEPS:BEGIN])

    assert factor * 0.9 < measured < factor * 1.1


@pytest.mark.sweep
@pytest.mark.parametrize("factor", [1.1, 1.3, 2.0])
@pytest.mark.parametrize("hidden", [0.0, 0.004])
@pytest.mark.parametrize("rounds", [6.0, 30.0, 150.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_delay_fault_reaches_its_factor(
    factor: float, hidden: float, rounds: float, seed: int
) -> None:
    steering = Steering(fault(FaultKind.LINK_DELAY, factor))
    taken = steps_of(steering, late(rounds, hidden), 0.03, seed)
    measured = middle(taken[BEGIN:]) / middle(taken[WARMUP_STEPS:BEGIN])

    assert factor * 0.9 < measured < factor * 1.1


def test_before_and_after_its_steps_the_link_is_left_alone() -> None:
    one = Fault(FaultKind.LINK_DELAY, None, 2, None, 10, 20, link=LinkSetting(delay=0.005))
    steering = Steering(one)

    assert [LinkSetting(), LinkSetting(delay=0.005), LinkSetting()] == [
        steering.setting(step) for step in (9, 15, 20)
    ]


def test_what_was_asked_for_in_numbers_is_not_corrected() -> None:
    setting = LinkSetting(rate=1e8)
    steering = Steering(fault(FaultKind.LINK_BANDWIDTH, None, link=setting))
    steps_of(steering, slow(BITS, 0.0), 0.03, 0)

    assert setting == steering.setting(STEPS - 1)


def test_a_ramp_lengthens_steps_in_proportion() -> None:
    steering = Steering(fault(FaultKind.LINK_BANDWIDTH, 2.0, shape="ramp"))
    taken = steps_of(steering, slow(BITS, 0.0), 0.01, 0)
    half = middle(taken[BEGIN + 65 : BEGIN + 75])

    assert 1.5 * HEALTHY * 0.9 < half < 1.5 * HEALTHY * 1.1
    assert 2.0 * HEALTHY * 0.9 < middle(taken[-5:]) < 2.0 * HEALTHY * 1.1


def test_a_link_that_costs_nothing_is_slowed_to_its_bounds_only() -> None:
    steering = Steering(fault(FaultKind.LINK_DELAY, 2.0))
    steps_of(steering, lambda setting: 0.0, 0.01, 0)

    assert 0.0 < steering.setting(STEPS - 1).delay <= 1.0
