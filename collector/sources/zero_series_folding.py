"""Counters that have counted nothing yet: exported together as one series."""

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
N = TypeVar("N", int, float)


class ZeroSeriesFolding:
    """Remembers which counters have counted: those are exported on their own for good.

    Also at 0 after a reset, and when their thing has gone and come: who adds up what was counted
    before a reset has to see them fall.
    """

    def __init__(self) -> None:
        self._loud: set[tuple[Hashable, Hashable]] = set()

    def recall(self, thing: Hashable, name: Hashable) -> None:
        """This counter had counted before a restart."""
        self._loud.add((thing, name))

    def fold(
        self,
        thing: Hashable,
        counts: Mapping[K, N],
        alone: Callable[[K], bool],
        together: Callable[[K], K],
    ) -> dict[K, N]:
        """The counts, with those that are and always were 0 under one name.

        Args:
            thing: What the counters belong to.
            counts: By name.
            alone: Whether a counter is exported on its own also at 0: an alert that waits for its
                first count has to see it rise.
            together: The name under which a counter is exported with others.
        """
        self._loud.update((thing, name) for name, count in counts.items() if count)
        return {
            name if (thing, name) in self._loud or alone(name) else together(name): count
            for name, count in counts.items()
        }
