"""Clocks of a rank: how its wall clock and its monotonic clock lie to each other.

How they lie to those of other nodes is measured by clock_exchange.py.
"""

import os
from hashlib import sha256
from pathlib import Path
from time import monotonic_ns, time_ns

READINGS = 9
UNKNOWN_CLOCK = 0


def monotonic_clock(proc: Path = Path("/proc")) -> int:
    """A number that two processes share if they share CLOCK_MONOTONIC: one boot, one namespace.

    UNKNOWN_CLOCK where the kernel does not say.
    """
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text()
        # Kernels before 5.6 have no time namespaces, and so one clock.
        namespace = proc / "self/ns/time"
        inode = namespace.stat().st_ino if os.path.lexists(namespace) else 0
    except OSError:
        return UNKNOWN_CLOCK
    digest = sha256(f"{boot.strip()} {inode}".encode()).digest()
    return int.from_bytes(digest[:7], "little") | 1


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
