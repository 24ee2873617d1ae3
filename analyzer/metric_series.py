"""Metrics over time: every value goes in once, and summaries leave none out."""

import math
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real


class SeriesError(ValueError):
    """A value or a question makes no sense; the message names the metric and what is wrong."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time (seconds, or a step)."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class Window:
    """Some values one after the other.

    Attributes:
        first: Time of the first value.
        last: Time of the last one.
        count: How many there are.
    """

    first: float
    last: float
    count: int
    mean: float
    least: float
    most: float


class MetricSeries:
    """The values of each metric, in the order of their arrival.

    MLBench's contract (its dashboard's `/api/metrics`), with what its tests leave open: a value
    that is no number is refused when it comes, so that no later question can fail on it.
    """

    def __init__(self) -> None:
        self._points: dict[str, list[Point]] = {}

    @property
    def names(self) -> list[str]:
        """Metrics that have a value, in the order of their first one."""
        return list(self._points)

    def add(self, name: str, at: float, value: object) -> None:
        """Take a value.

        Raises:
            SeriesError: Value or time is not a finite number; nothing was taken.
        """
        point = Point(_number(name, "time", at), _number(name, "value", value))
        self._points.setdefault(name, []).append(point)

    def points(self, name: str) -> list[Point]:
        """Every value; none for a metric that never came."""
        return list(self._points.get(name, ()))

    def last(self, name: str, count: int) -> list[Point]:
        """The newest so many values, oldest first; fewer where there are fewer.

        Raises:
            SeriesError: `count` is below 1.
        """
        return self.points(name)[-_count(name, count) :]

    def summarized(self, name: str, count: int) -> list[Window]:
        """So many windows of as equal a size as can be; fewer where there are fewer values.

        Every value is in exactly one window, and the last window holds the last value.

        Raises:
            SeriesError: `count` is below 1.
        """
        points = self.points(name)
        windows = min(_count(name, count), len(points))
        edges = [len(points) * place // windows for place in range(windows + 1)] if windows else []
        return [_window(points[begin:end]) for begin, end in pairwise(edges)]


def _window(points: list[Point]) -> Window:
    values = [point.value for point in points]
    mean = math.fsum(value / len(values) for value in values)
    return Window(points[0].at, points[-1].at, len(points), mean, min(values), max(values))


def _number(name: str, what: str, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, Real):
        raise SeriesError(f"{name}: {what} {given!r} is not a number")
    try:
        found = float(given)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise SeriesError(f"{name}: {what} is {found}; it must be finite")
    return found


def _count(name: str, count: int) -> int:
    if count < 1:
        raise SeriesError(f"{name}: {count} is too few to ask for; ask for at least 1")
    return count
