"""The course of a fault over its steps: how much of it is in force in each.

Strength 0 is healthy, 1 the whole factor: in a step of strength s a fault of factor F makes the
rank's own time 1 + (F - 1) s times as long.
"""

from enum import StrEnum

TRANSIENT_STEPS = 20
"""Length of a burst whose end is not given."""
PERIOD_STEPS = 20
"""Of a periodic fault, from one beginning to the next."""
DUTY = 0.5
"""Share of a period in which it is in force."""


class Shape(StrEnum):
    """How a fault goes on."""

    CONSTANT = "constant"
    TRANSIENT = "transient"
    PERIODIC = "periodic"
    RAMP = "ramp"


SHAPES: tuple[str, ...] = tuple(Shape)


def steps_in_force(period: int, duty: float) -> int:
    """Steps of each period in which a periodic fault is in force; at least one is not."""
    return min(period - 1, max(1, round(duty * period)))


def strength(
    shape: str, from_step: int, to_step: int, step: int, period: int | None, duty: float | None
) -> float:
    """How much of a fault is in force in a step, 0 to 1.

    Constant and transient: all of it from `from_step` to before `to_step`. Periodic: all of it in
    the first part of each period. Ramp: linear from just above nothing to all in the last step.
    """
    if not from_step <= step < to_step:
        return 0.0
    if shape == Shape.PERIODIC:
        assert period is not None
        assert duty is not None
        return float((step - from_step) % period < steps_in_force(period, duty))
    if shape == Shape.RAMP:
        return (step - from_step + 1) / (to_step - from_step)
    return 1.0
