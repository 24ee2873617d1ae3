"""XID events that the process has told of, until somebody takes them."""

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from collector.reading import Rejected
from collector.xid_event import XidEvent, pci_bus_id

MAX_EVENTS = 1000
"""Kept at most: the first ones, because what comes first is the cause of what follows."""


class XidInbox:
    """One thread puts events in, another takes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[XidEvent] = []

    def put(self, message: Mapping[str, Any]) -> Iterator[Rejected]:
        """Keep an event; if it was not kept, why."""
        place = pci_bus_id(message["bus"])
        if place is None:
            yield Rejected("events_dropped", f"XID {message['xid']} of an unknown GPU")
            return
        event = XidEvent(
            monotonic=message["at"],
            pci_bus_id=place,
            xid=message["xid"],
            origin="nvml",
            uuid=message["uuid"],
            gpu_instance=message.get("gpu_instance"),
            compute_instance=message.get("compute_instance"),
        )
        with self._lock:
            if len(self._events) < MAX_EVENTS:
                self._events.append(event)
                return
        text = f"XID {event.xid} of {place}: {MAX_EVENTS} events wait already"
        yield Rejected("events_dropped", text)

    def taken(self) -> tuple[XidEvent, ...]:
        """All that came since the last call."""
        with self._lock:
            events, self._events = self._events, []
        return tuple(events)
