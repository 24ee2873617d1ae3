"""How much memory this process has."""

import os
from pathlib import Path

STATM = Path("/proc/self/statm")


def resident_bytes() -> float:
    """Resident memory; NaN where the system does not tell (proc(5), statm)."""
    try:
        pages = int(STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return float("nan")
    return float(pages * os.sysconf("SC_PAGE_SIZE"))
