"""Clocks of a rank: how its wall clock and its monotonic clock lie to each other.

Ranks of one machine share CLOCK_MONOTONIC, so that between emulated nodes the offset is zero by
construction and its error is the error of this reading.
"""

from time import monotonic_ns, time_ns

READINGS = 9


def wall_minus_monotonic_ns() -> tuple[int, int]:
    """(wall - monotonic, half of the tightest bracket around the reading), nanoseconds."""
    best: tuple[int, int] | None = None
    for _ in range(READINGS):
        before = monotonic_ns()
        wall = time_ns()
        after = monotonic_ns()
        half = (after - before) // 2
        if best is None or half < best[1]:
            best = (wall - before - half, half)
    assert best is not None
    return best
