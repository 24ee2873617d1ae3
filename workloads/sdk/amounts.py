"""Numbers as programs pass them: Python's, numpy's, tensors, or anything else."""

import math
import operator
from typing import Any

from lockstep.workloads.sdk.warning import pass_on, shown, warn_about

INT32 = (1 << 31) - 1
"""The largest rank, world and restart count that a ring holds."""


def whole(value: Any, what: str, most: int) -> int:
    """A whole number from 0.

    Raises:
        ValueError: It is none, or above `most`.
    """
    number = index(value)
    if number is None or not 0 <= number <= most:
        raise ValueError(f"{what} is {shown(value)}; it must be a whole number from 0 to {most}")
    return number


def count(value: Any, what: str, most: int) -> int:
    """A number of things, without its fraction; 0 with a warning where it is none."""
    number = index(value)
    if number is None:
        real = _float(value)
        number = int(real) if real is not None and math.isfinite(real) else -1
    if 0 <= number <= most:
        return number
    warn_about(what, lambda: f"{what}={shown(value)} is no number from 0 to {most}; 0 is recorded")
    return 0


def real(value: Any, what: str, instead: float) -> float:
    """A real number, NaN and infinities too; `instead` with a warning where it is none."""
    number = _float(value)
    if number is None:
        kind = type(value).__name__
        warn_about(what, lambda: f"{what} is a {kind}, which is no number; {instead} is recorded")
        return instead
    return number


def index(value: Any) -> int | None:
    """The whole number that it is; None where it is none."""
    try:
        return operator.index(value)
    except Exception as error:  # noqa: BLE001 - whatever a foreign type raises
        pass_on(error)
        return None


def _float(value: Any) -> float | None:
    try:
        # A tensor that needs a gradient warns when it is made a number.
        return float(value.detach() if hasattr(value, "detach") else value)
    except Exception as error:  # noqa: BLE001 - whatever a foreign type raises
        pass_on(error)
        return None
