"""Where a rank that writes a ring looks for requests, and leaves its flight-recorder dump.

Both lie beside the ring. A dump is what `torch._C._distributed_c10d._dump_fr_trace_json` gives.
"""

import re

PREFIX = "flight-recorder-"
EVIDENCE_FILE = "evidence.json"
"""Beside dumps that are sent: when each was written, and what else is known of the ranks."""

_DUMP = re.compile(rf"{PREFIX}([\w.-]{{1,64}})-(\d{{1,9}})", re.ASCII)


def request_name(run: str) -> str:
    """Touched by whoever wants dumps: all ranks of the run beside it write one each time."""
    return f"dump-{run}"


def dump_name(run: str, rank: int) -> str:
    """Replaced as a whole with every dump."""
    return f"{PREFIX}{run}-{rank}"


def of_dump(name: str) -> tuple[str, int] | None:
    """(run, rank) of a name that `dump_name` gives, else None."""
    match = _DUMP.fullmatch(name)
    return (match[1], int(match[2])) if match else None
