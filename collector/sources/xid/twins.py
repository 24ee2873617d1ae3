"""Which events are told twice: by NVML and by the kernel log."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lockstep.collector.xid_event import XidEvent

WINDOW_SECONDS = 2.0
"""The two tell of one event at most so far apart."""
KEPT_SECONDS = 60.0
"""An event is remembered so long, because the log may be behind when it is flooded."""
MAX_REMEMBERED = 1000
"""Events of one GPU, XID and origin."""

_OTHER = {"nvml": "kmsg", "kmsg": "nvml"}


class Untwinned(NamedTuple):
    """An event whose twin has not been heard yet."""

    origin: str
    pci_bus_id: str
    xid: int
    monotonic: float


class Twins:
    """Pairs the events of two origins, each at most once and in their order.

    An event is counted at once, whoever tells of it first; its twin is absorbed when it comes.
    Repeats inside the window are events of their own, because one origin never tells twice: with
    each origin in its own order, pairing the oldest first finds every pair there is.
    """

    def __init__(self) -> None:
        self._alone: dict[tuple[str, str, int], deque[float]] = {}

    def absorbs(self, event: XidEvent) -> bool:
        """Whether the event was told by the other origin before; remembered if not."""
        others = self._alone.get((_OTHER[event.origin], event.pci_bus_id, event.xid), deque())
        while others and others[0] < event.monotonic - WINDOW_SECONDS:
            others.popleft()  # too old for this event, and so for every later one
        if others and others[0] <= event.monotonic + WINDOW_SECONDS:
            others.popleft()
            return True
        self._remember(event.origin, event.pci_bus_id, event.xid, event.monotonic)
        return False

    def forget(self, now: float) -> None:
        """Drop what is too old to have a twin still; `now` as the events' monotonic."""
        old = [
            key for key, times in self._alone.items() if not times or times[-1] < now - KEPT_SECONDS
        ]
        for key in old:
            del self._alone[key]

    def alone(self) -> Iterator[Untwinned]:
        """What a restart has to know."""
        for key, times in self._alone.items():
            for monotonic in times:
                yield Untwinned(*key, monotonic)

    def resume(self, alone: Iterable[Untwinned]) -> None:
        """Go on where an earlier process of this boot stopped."""
        for one in alone:
            self._remember(*one)

    def _remember(self, origin: str, bus: str, xid: int, monotonic: float) -> None:
        times = self._alone.setdefault((origin, bus, xid), deque(maxlen=MAX_REMEMBERED))
        times.append(monotonic)
