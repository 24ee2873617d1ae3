"""The time that a rank spends in the garbage collector, whoever asked for it."""

import gc
import threading
from time import monotonic_ns
from typing import Any

from workloads.ring import OP_INDEX, RingWriter

_GC = OP_INDEX["gc"]


class GarbageWatch:
    """Sums the collections of the thread that made it, and records them as one operation.

    A storm of collections would fill the ring with operations of microseconds; how long they took
    together is what tells of it. Those of other threads are not the training thread's own time.
    """

    def __init__(self, writer: RingWriter) -> None:
        self._writer = writer
        self._thread = threading.get_ident()
        self._spent = self._began = 0
        gc.callbacks.append(self._seen)

    def write(self) -> None:
        """Record the collections since the last call as one that ends now; nothing if none was."""
        if self._spent:
            end = monotonic_ns()
            self._writer.local(_GC, end - self._spent, end)
            self._spent = 0

    def close(self) -> None:
        """Watch no longer."""
        gc.callbacks.remove(self._seen)

    def _seen(self, phase: str, _info: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._began = monotonic_ns()
        elif self._began:
            self._spent += monotonic_ns() - self._began
            self._began = 0
