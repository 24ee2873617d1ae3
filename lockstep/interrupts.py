"""Ctrl-C and SIGTERM while something runs: both end it, and neither is lost."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

INSIST_SECONDS: Final = 1.0


class Interrupts:
    """What asked us to stop, noted as well as raised.

    Python raises KeyboardInterrupt wherever it stands. In a finalizer or a callback from C it is
    printed and forgotten, and an import turns it into an error of its own:
    https://docs.python.org/3/library/signal.html#note-on-signal-handlers-and-exceptions
    """

    def __init__(self) -> None:
        self.came = False
        self._held = False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """From here on SIGTERM ends what runs like Ctrl-C does."""
        before = {
            number: signal.signal(number, self._interrupt)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Noted only: for imports, which leave half a module, and for what must be written."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    @contextmanager
    def insisted(self) -> Iterator[None]:
        """While we wait: what was held or swallowed, here or before, is raised within a second."""
        if self.came:
            raise KeyboardInterrupt
        before = signal.signal(signal.SIGALRM, self._again)
        signal.setitimer(signal.ITIMER_REAL, INSIST_SECONDS, INSIST_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        if not self._held:
            raise KeyboardInterrupt

    def _again(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
