"""A feed: a source with its collector, which turns its readings into samples."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from lockstep.collector.contract.metrics import Sample
from lockstep.collector.readings.source import Source
from lockstep.collector.samples.counters import Falls, Key

DEADLINE_SECONDS = 2.0
"""A reading that takes longer is stalled: on the page well within five seconds."""

R_contra = TypeVar("R_contra", contravariant=True)


class Collector(Protocol[R_contra]):
    """Turns one reading into samples; pure."""

    def __call__(self, reading: R_contra, /) -> Iterable[Sample]:
        """Fresh samples; what the reading does not hold is not emitted."""
        ...


@runtime_checkable
class Resuming(Protocol):
    """A collector for which it counts what was counted before a restart."""

    def resume(self, counted: Iterable[Key], /) -> None:
        """Go on with these counters, of which none is 0; called before the first reading."""
        ...


@dataclass(frozen=True, slots=True)
class Feed:
    """A source, what becomes of its readings, its period and deadline in seconds.

    `falls` says what a counter of it that reads less than before means. While the source is not
    available, it is looked for every `look` periods. `in_turns`: with others by one thread.
    """

    source: Source[Any]
    collect: Collector[Any]
    period: float
    deadline: float = DEADLINE_SECONDS
    falls: Falls = Falls.TOLD
    look: int = 1
    in_turns: bool = False
