"""One rank of this node, as its ring and the process table tell."""

from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.sources.rank_ring.header import Header

RankKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of this node.

    Attributes:
        up: False once its process is gone.
        pid: Its process in our process table; None if it is gone, or not visible here. In a
            container a rank knows itself by another one, `header.identity.pid`.
        there_ns: Since when its file has been there at the latest, in Unix nanoseconds: the word of
            the kernel, not of who writes it.
        user: Whose the file is, the word of the kernel too; None = nobody looked.
    """

    path: Path
    header: Header
    up: bool
    pid: int | None
    there_ns: int = 0
    user: int | None = None

    @property
    def key(self) -> RankKey:
        """(run, rank)."""
        return self.header.identity.run, self.header.identity.rank

    @property
    def started(self) -> int:
        """When it says that it started, in Unix nanoseconds."""
        return self.header.identity.start_wall_ns
