"""Where a rank is in its run, from its ring: cheap enough to be asked every few milliseconds."""

import os
from dataclasses import dataclass
from pathlib import Path

from collector.contract import ring

_BYTES = ring.GROUP_COUNTERS_OFFSET + ring.MAX_GROUPS * ring.GROUP_COUNTERS.size


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank is.

    Attributes:
        steps: Completed, so also the number of the step that it is in.
        wall_seconds: Of all completed steps.
        collectives: Completed by this rank.
    """

    steps: int
    wall_seconds: float
    collectives: int


class RingSteps:
    """Reads one rank's ring."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def read(self) -> Place | None:
        """Where the rank is; None before it has a ring, and while it writes this very part."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
        page = os.pread(self._descriptor, _BYTES, 0)
        guard = os.pread(self._descriptor, ring.GUARD.size, ring.GUARD_OFFSET)
        if len(page) < _BYTES or page[: len(ring.MAGIC)] != ring.MAGIC:
            return None
        header = ring.Header(page)
        if header.guard % 2 or ring.GUARD.pack(header.guard) != guard:
            return None
        done = header.counters
        return Place(
            done.steps, done.wall_ns / 1e9, sum(group.collectives for group in header.groups)
        )
