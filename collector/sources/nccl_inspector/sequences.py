"""Which collectives NCCL numbered and Inspector did not write."""

from typing import NamedTuple

from collector.sources.nccl_inspector.lines import Batch

MAX_SEQUENCES = 1024
"""Of one file; a process has some communicators with some operations each."""
MAX_GAP = 1_000_000
"""Numbers farther apart are of a damaged line, or NCCL has begun anew: what is missing between them
is not known."""


class _Numbers(NamedTuple):
    """The lowest and the highest that came, how many came, and how many were told missing."""

    lowest: int
    highest: int
    came: int
    told: int

    @property
    def missing(self) -> int:
        """How many between them did not come."""
        return self.highest - self.lowest + 1 - self.came


class Sequences:
    """Which numbers of one file's collectives never came.

    NCCL numbers the operations of each kind in each communicator; Inspector leaves out what its
    ring overwrote, and messages below its minimum size.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Numbers] = {}

    def add(self, batch: Batch) -> None:
        """Note their numbers."""
        communicator, _, _, op, numbered = batch.operation
        if not numbered:
            return
        known = self._known.pop((communicator, op), None)
        new = _Numbers(min(batch.sequences), max(batch.sequences), len(batch.sequences), 0)
        if known is not None:
            both = _Numbers(
                min(new.lowest, known.lowest), max(new.highest, known.highest),
                new.came + known.came, known.told,
            )  # fmt: skip
            new = both if both.missing - both.told <= MAX_GAP else new
        if new.missing - new.told > MAX_GAP:
            return
        while len(self._known) >= MAX_SEQUENCES:
            del self._known[next(iter(self._known))]
        self._known[communicator, op] = new

    def gaps(self) -> int:
        """Numbers found missing since the last call; those that come late are not, in one call."""
        found = 0
        for key, one in self._known.items():
            if one.missing > one.told:
                found += one.missing - one.told
                self._known[key] = one._replace(told=one.missing)
        return found

    def begin_anew(self) -> None:
        """What came so far says nothing about what comes next."""
        self._known.clear()
