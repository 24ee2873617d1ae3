"""The helper thread that shows that a rank's process still runs."""

import sys
import threading
from collections.abc import Callable
from contextlib import suppress

HEARTBEAT_SECONDS = 0.5
LONGEST_STOP_SECONDS = 5.0


class Heartbeat:
    """Calls its beats from a helper thread for as long as the process runs.

    One that fails does not stop the others, nor itself: its error is in the rank's log, once.
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
        """Stop; returns when the thread has ended, so that the ring may be closed.

        A beat that stands still is not waited for longer than LONGEST_STOP_SECONDS.
        """
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(LONGEST_STOP_SECONDS)

    def _run(self) -> None:
        told: set[type] = set()
        while not self._stop.wait(self._period):
            for beat in self._beats:
                try:
                    beat()
                except Exception as error:  # noqa: BLE001 - the heart beats on
                    if type(error) not in told:
                        told.add(type(error))
                        with suppress(Exception):  # who has closed stderr does not want to hear it
                            print(f"heartbeat: {str(error) or repr(error)}", file=sys.stderr)  # noqa: T201
