"""How a source says that it, or one of the things it reads, gave nothing usable."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

IMPLAUSIBLE = "implausible"
"""The reason under which a value outside its metric's range is counted."""


class SourceError(Exception):
    """A source, or one thing it reads, did not answer.

    Attributes:
        reason: One word of a small set, the `reason` label of `lockstep_source_errors_total`.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Rejected:
    """One thing that a source left out of its reading, and why; the rest of it stands.

    Attributes:
        each: Logged each time, and not the first time alone: it is rare, and each is another.
    """

    reason: str
    message: str
    each: bool = False

    @classmethod
    def of(cls, error: SourceError) -> "Rejected":
        """The error as a part of a reading."""
        return cls(error.reason, str(error))


class RankProcess(NamedTuple):
    """A living rank and its process; what several sources are asked about.

    Attributes:
        pid: In our process table, for who looks at processes; as the rank knows itself, which in a
            container is another one, for who reads what NCCL says of it.
        user: Whose its ring is, by the kernel's word; None = nobody looked.
        folder: Where its ring is; None = nobody looked.
    """

    run: str
    rank: int
    pid: int
    user: int | None = None
    folder: Path | None = None
