"""A real garbage-collection storm: cyclic objects are made and collected for a time."""

import gc
from time import monotonic

FIRST_RATE = 1e6
"""Objects made and collected in a second, before it was measured."""
ROUND_SECONDS = 0.0005
"""Time that one round of making and collecting should take: the storm ends that exactly."""
MOST_DEBT_SECONDS = 0.02
"""A longer stop of the process is not made up for."""


class Garbage:
    """Makes and collects garbage; the size of a round is learnt from what the last one cost.

    Attributes:
        objects: Made and collected so far.
        collections: Runs of the collector so far.
        seconds: Time spent so far.
    """

    def __init__(self) -> None:
        self.objects = 0
        self.collections = 0
        self.seconds = 0.0
        self._rate = FIRST_RATE
        self._debt = 0.0

    def storm(self, seconds: float) -> None:
        """Make and collect until the time is over; what it took too long, the next one is shorter.

        The last round of each runs over by a part of itself, more where others use the processor.
        """
        began = now = monotonic()
        until = began + seconds - self._debt
        while now < until:
            wanted = min(ROUND_SECONDS, until - now)
            made = max(1, round(self._rate * wanted))
            _make_cycles(made)
            self.objects += gc.collect()
            self.collections += 1
            took, now = monotonic() - now, monotonic()
            # In steps: a round that was descheduled says little of its cost.
            seen = made / max(took, 1e-9)
            self._rate = min(max(seen, self._rate / 2), self._rate * 2)
        took = monotonic() - began
        self.seconds += took
        self._debt = min(self._debt + took - seconds, MOST_DEBT_SECONDS)


def _make_cycles(count: int) -> None:
    """Lists that hold themselves: reference counts alone never free them."""
    for _ in range(count):
        cycle: list[object] = []
        cycle.append(cycle)
