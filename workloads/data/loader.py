"""Batches made ahead of time by a thread, so that a step waits only when the data is late."""

import threading
from collections.abc import Callable
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

AHEAD = 2
"""Batches that are ready before they are asked for."""
POLL_SECONDS = 0.2

BatchT = TypeVar("BatchT")


class Loader(Generic[BatchT]):
    """Batches of consecutive steps.

    Args:
        make: The batch of a step; runs in the loader's thread alone.
        first: The first step.
    """

    def __init__(self, make: Callable[[int], BatchT], first: int) -> None:
        self._make = make
        self._next = first
        self._ready: Queue[BatchT | BaseException] = Queue(AHEAD)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loader", daemon=True)
        self._thread.start()

    def next(self) -> BatchT:
        """The next step's batch; waits for it where it is late.

        Raises:
            Exception: What the making of it raised.
        """
        batch = self._ready.get()
        if isinstance(batch, BaseException):
            raise batch
        return batch

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        while True:  # whatever is in the queue may be what the thread waits behind
            try:
                self._ready.get_nowait()
            except Empty:
                break
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            made: BatchT | BaseException
            try:
                made = self._make(self._next)
            except Exception as error:  # noqa: BLE001 - it is raised where the batch is asked for
                made = error
            self._next += 1
            while not self._stop.is_set():
                try:
                    self._ready.put(made, timeout=POLL_SECONDS)
                    break
                except Full:
                    continue
