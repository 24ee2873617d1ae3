"""The only code that touches the world: each source reads one thing into a frozen reading."""

from typing import Any, Protocol, TypeVar, runtime_checkable

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
        """A fresh reading; raises lockstep.collector.reading.SourceError when there is none.

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
