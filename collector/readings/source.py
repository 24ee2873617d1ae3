"""What a source is, and how it reports that it, or a part of it, gave nothing usable."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

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


R_co = TypeVar("R_co", covariant=True)


class Source(Protocol[R_co]):
    """Reads one thing. `name` is its file and its `source` label.

    A source may have a method `why_not() -> str`: what is missing when it is not available; and
    `close()`: ends what it started.
    """

    @property
    def name(self) -> str:
        """The `source` label."""
        ...

    def available(self) -> bool:
        """Whether this node has what the source reads."""
        ...

    def read(self) -> R_co:
        """A fresh reading; raises readings.source.SourceError when there is none.

        A reading that stands in part lists what it left out in an attribute `rejected`; one whose
        attribute `stalled` is true says that its source stands still.
        """
        ...


@runtime_checkable
class Remembering(Protocol):
    """A source that has to know more after a restart of the collector than its counters."""

    @property
    def name(self) -> str:
        """The `source` label."""
        ...

    def memory(self) -> Any:
        """JSON values; asked for while the source may be read by its thread."""
        ...

    def recall(self, tree: Any) -> None:
        """Take over the memory of an earlier process of this boot, before the first reading.

        Raises:
            ValueError: It is not a memory of this source.
        """
        ...
