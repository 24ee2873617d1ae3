"""Parts of a verdict, or nothing where they are not as they should: people edit files."""

import math
from collections.abc import Mapping
from typing import Any


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def whole(value: Any) -> int | None:
    """A whole number from 0, as a rank or a step is; or None."""
    told = number(value)
    return None if told is None or told < 0 or told != int(told) else int(told)


def pair(value: Any) -> tuple[float, float] | None:
    """An interval, or None."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = number(value[0]), number(value[1])
    return None if low is None or high is None else (low, high)


def text(value: Any) -> str:
    """A string, or an empty one."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def records(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The mappings of a list."""
    return tuple(each for each in sequence(value) if isinstance(each, Mapping))


def texts(value: Any) -> tuple[str, ...]:
    """The strings of a list."""
    return tuple(each for each in sequence(value) if isinstance(each, str))


def sequence(value: Any) -> tuple[Any, ...]:
    """A list as a tuple, or an empty one."""
    return tuple(value) if isinstance(value, list | tuple) else ()
