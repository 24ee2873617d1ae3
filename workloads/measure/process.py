"""Processes and clocks as the kernel reports them: who lives, since when, and on which clock.

Standard library only. Offsets to the clocks of other nodes are measured by clocks.py.
"""

import os
import time
from hashlib import sha256
from pathlib import Path
from time import monotonic_ns, time_ns

_GONE = ("Z", "X", "x")
"""States of a process that has ended and was not waited for yet."""
_SLACK_NS = 1_000_000_000
"""Start times are whole clock ticks; a pid is not used again within this."""


def pid_namespace() -> int:
    """A number of the PID namespace of this process; 0 where nobody knows."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def process_lives(pid: int, by_ns: int) -> bool:
    """Whether the process of this namespace that had the pid at a time is there.

    Args:
        pid: In this namespace.
        by_ns: Monotonic time at which it was there; one that began later is another.
    """
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # somebody else's
    stat = _stat(str(pid))
    if stat is None:
        return True  # it may not be looked at
    began = _began_ns(stat)
    return stat[0] not in _GONE and (began is None or began <= by_ns + _SLACK_NS)


def process_began_ns() -> int | None:
    """When this process was started, on the monotonic clock; None where /proc does not tell."""
    stat = _stat("self")
    return None if stat is None else _began_ns(stat)


def _stat(pid: str) -> list[str] | None:
    """Fields of proc_pid_stat(5) from the state on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split() or None


def _began_ns(fields: list[str]) -> int | None:
    """`starttime` of proc_pid_stat(5) counts clock ticks since boot, suspended time included."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    if boot_clock is None:
        return None  # not Linux
    try:
        since_boot = int(fields[19]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    age = time.clock_gettime_ns(boot_clock) - since_boot
    return monotonic_ns() - age if age >= 0 else None


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
