"""Feeds whose readings are cheaper than waking a thread for each: one thread reads them in turn."""

import threading
from collections.abc import Iterable
from functools import partial

from lockstep.collector.clock import Clock
from lockstep.collector.contract import threads
from lockstep.collector.sampler.reader import FeedReader

PATIENCE_SECONDS = 0.5
"""How long a reading may take before the others go on without it; it is looked at every second."""


class SharedThread:
    """Reads feeds one after the other; one that hangs keeps its thread, and the others get a new.

    So a hang delays them by three times the patience at most. When it ends, its thread puts its
    feed back among the others and ends too: of all threads but one, each has a feed that hangs.

    Args:
        readers: Feeds; none is called from elsewhere.
        patience: Seconds that a reading may take.
    """

    def __init__(
        self, readers: Iterable[FeedReader], clock: Clock, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._clock = clock
        self._patience = patience
        self._due = dict.fromkeys(readers, clock.monotonic())  # without those being read
        self._period = min((reader.feed.period for reader in self._due), default=1.0)
        self._origin = 0.0
        self._lock = threading.Lock()
        self._turn = 0  # number of the thread whose turn it is; those before it only finish
        self._began: float | None = None  # of the reading in its turn

    def run(self, stop: threading.Event, phase: float = 1.0) -> None:
        """Have all feeds read at once, and at their periods until told to stop.

        Args:
            stop: Ends the reading.
            phase: Share of the shortest period before the second readings.
        """
        self._origin = self._clock.monotonic() + (phase - 1) * self._period
        with self._lock:
            reading = self._next(stop)
        while not stop.wait(2 * self._patience):
            with self._lock:
                if self._hangs():
                    reading = self._next(stop)
        reading.join()

    def _hangs(self) -> bool:
        began = self._began
        return began is not None and self._clock.monotonic() - began > self._patience

    def _next(self, stop: threading.Event) -> threading.Thread:
        """A thread whose turn it is from now on."""
        thread = threads.loop("readings", partial(self._read, stop, self._turn + 1), stop)
        thread.start()
        self._turn, self._began = self._turn + 1, None
        return thread

    def _read(self, stop: threading.Event, turn: int) -> None:
        while not stop.is_set():
            reader, wait = self._first()
            if reader is None:
                stop.wait(wait)
                continue
            try:
                reader.read_once()
            finally:  # what fails is read again
                with self._lock:
                    self._due[reader] = self._after(reader)
            with self._lock:
                if self._turn == turn:
                    self._began = None
                elif not stop.is_set():  # it hung, and the next thread goes on
                    return
        with self._lock:
            ended, self._due = list(self._due), {}
        for reader in ended:
            reader.close()

    def _first(self) -> tuple[FeedReader | None, float]:
        """The feed that is due now, taken out until it was read; or for how long none is."""
        with self._lock:
            now = self._clock.monotonic()
            reader = min(self._due, key=self._due.__getitem__, default=None)
            if reader is None:
                return None, self._period
            if self._due[reader] > now:
                return None, self._due[reader] - now
            del self._due[reader]
            self._began = now
            return reader, 0.0

    def _after(self, reader: FeedReader) -> float:
        """When it is due again: all are at the same moments, so that the thread wakes once."""
        period, turns = reader.feed.period, reader.turns()
        passed = (self._clock.monotonic() - self._origin) // period
        return self._origin + (passed + turns) * period
