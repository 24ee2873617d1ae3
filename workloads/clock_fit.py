"""What a few measurements of a clock's offset say about it now: a line, and how wrong it can be."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_DRIFT = 200e-6
"""Seconds that two clocks can gain on each other in a second: IEEE 802.3 allows each 100 ppm."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What to add to a clock for another one, as it was at one moment.

    Attributes:
        at_ns: When, on the first of the two clocks.
        offset_ns: The other clock minus this one.
        error_ns: The offset is not further from the truth than this; at least 1.
    """

    at_ns: int
    offset_ns: int
    error_ns: int


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset, and what it is at most away from the truth; nanoseconds."""

    offset_ns: int
    error_ns: int


def offset_now(
    measurements: Sequence[Measurement], now_ns: int, drift: float = MAX_DRIFT
) -> Offset:
    """The offset at a time not before the last measurement.

    Of two estimates the one with the smaller bound: the last measurement, held while the clocks
    drift apart by at most `drift`, and the line through all of them.

    Args:
        measurements: At least one, in order of time.
        now_ns: On the clock of `at_ns`.
        drift: Seconds in a second; 0 if both are one clock.
    """
    last = measurements[-1]
    ahead = now_ns - last.at_ns
    # Differences from the last one: a double cannot hold the nanoseconds of a clock itself.
    times = [float(one.at_ns - last.at_ns) for one in measurements]
    held = last.error_ns + drift * ahead
    shares = _shares(times, [float(one.error_ns) for one in measurements], float(ahead))
    if shares is not None:
        bound = sum(abs(s) * one.error_ns for s, one in zip(shares, measurements, strict=True))
        if bound < held:
            moved = sum(
                share * (one.offset_ns - last.offset_ns)
                for share, one in zip(shares, measurements, strict=True)
            )
            return Offset(last.offset_ns + round(moved), round(bound) + 1)
    return Offset(last.offset_ns, round(held) + 1)


def _shares(times: list[float], errors: list[float], at: float) -> list[float] | None:
    """Each measurement's share in the weighted least-squares line's value at a time.

    The line is linear in what was measured, and its shares give 1 for a constant and `at` for the
    times themselves. So where the true offset is a line, the value is wrong by at most the sum of
    |share| x error. None where all times are equal.
    """
    weights = [error**-2 for error in errors]
    total = sum(weights)
    mean = sum(w * t for w, t in zip(weights, times, strict=True)) / total
    spread = sum(w * (t - mean) ** 2 for w, t in zip(weights, times, strict=True))
    if spread <= 0.0:
        return None
    return [
        w / total + (at - mean) * w * (t - mean) / spread
        for w, t in zip(weights, times, strict=True)
    ]
