"""How much slower this machine is than it could be, measured while a test runs on it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, thread_time

WORK_SECONDS = 0.002
"""Of a processor, for one look; a look a REST costs a twentieth of one processor."""
REST_SECONDS = 0.04


class Slowness:
    """How many times as long as alone a thread of this process needs; 1.0 = it has a processor."""

    def __init__(self) -> None:
        self._worst = 1.0
        self._ended = threading.Event()

    @property
    def factor(self) -> float:
        """The worst of the looks so far, at least 1.0: a limit in seconds is multiplied by it."""
        return self._worst

    def look(self) -> None:
        """Compute for a moment, and see how long that took."""
        began, worked = monotonic(), thread_time()
        while thread_time() - worked < WORK_SECONDS:
            pass
        self._worst = max(self._worst, (monotonic() - began) / (thread_time() - worked))

    def watch(self) -> None:
        """Look again and again, until the end."""
        while not self._ended.wait(REST_SECONDS):
            self.look()

    def end(self) -> None:
        self._ended.set()


@contextmanager
def slowness() -> Iterator[Slowness]:
    """Measures the machine before and during a block that is judged by its seconds.

    A test that says `seconds < 2.0 * machine.factor` is about the program, whatever else runs
    beside it: what has a fifth of a processor may take five times as long.
    """
    machine = Slowness()
    machine.look()
    watching = threading.Thread(target=machine.watch, name="slowness", daemon=True)
    watching.start()
    try:
        yield machine
    finally:
        machine.end()
        watching.join()
