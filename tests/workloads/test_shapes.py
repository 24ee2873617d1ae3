"""The course of a fault over its steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.plan import SHAPES, Fault, Shape, steps_in_force, strength


def fault(shape: str, period: int | None = None, duty: float | None = None) -> Fault:
    return Fault(
        FaultKind.COMPUTE, 1, None, 2.0, 20, 60, shape, period=period, duty=duty
    )  # fmt: skip


def test_a_constant_fault_is_whole_from_its_first_step_to_before_its_last() -> None:
    constant = fault("constant")

    assert [0.0, 1.0, 1.0, 0.0] == [constant.strength(step) for step in (19, 20, 59, 60)]


def test_a_periodic_fault_rests_in_the_second_part_of_each_period() -> None:
    periodic = fault("periodic", period=10, duty=0.3)
    seen = [periodic.strength(step) for step in range(20, 40)]

    assert ([1.0] * 3 + [0.0] * 7) * 2 == seen


def test_a_ramp_grows_linearly_to_the_whole_factor_in_its_last_step() -> None:
    ramp = fault("ramp")

    assert [1 / 40, 0.5, 1.0] == [ramp.strength(step) for step in (20, 39, 59)]
    assert 1.0 + 41 / 80 == ramp.factor_mean


def test_a_burst_is_as_large_as_was_asked_for_on_average_too() -> None:
    assert 2.0 == fault("transient").factor_mean
    assert 2.0 == fault("periodic", period=7, duty=0.4).factor_mean


@given(st.integers(2, 50), st.floats(0.001, 0.999))
def test_every_period_has_steps_in_force_and_steps_of_rest(period: int, duty: float) -> None:
    assert 1 <= steps_in_force(period, duty) <= period - 1


@pytest.mark.parametrize("shape", SHAPES)
@given(st.integers(-5, 120))
def test_no_shape_reaches_out_of_its_span(shape: str, step: int) -> None:
    period, duty = (8, 0.5) if shape == Shape.PERIODIC else (None, None)
    found = strength(shape, 20, 60, step, period, duty)

    assert 0.0 <= found <= 1.0
    assert 0.0 == found or 20 <= step < 60
