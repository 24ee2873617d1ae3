"""The helper thread that shows that a rank's process still runs."""

import sys
import threading
from collections.abc import Callable

HEARTBEAT_SECONDS = 0.5


class Heartbeat:
    """Calls its beats from a helper thread for as long as the process runs.

    One that cannot write does not stop the others: its error is in the rank's log, once.
    """

    def __init__(self, *beats: Callable[[], None], period: float = HEARTBEAT_SECONDS) -> None:
        self._beats = beats
        self._period = period
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start beating."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; returns when the thread has ended, so that the ring may be closed."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        told: set[str] = set()
        while not self._stop.wait(self._period):
            for beat in self._beats:
                try:
                    beat()
                except OSError as error:
                    if str(error) not in told:
                        print(f"heartbeat: {error}", file=sys.stderr)  # noqa: T201 - the rank's log
                        told.add(str(error))
