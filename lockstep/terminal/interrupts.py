"""Ctrl-C, SIGTERM and SIGHUP while something runs: they end it, and none is lost."""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from lockstep.collector.contract.visible import VisibleFormatter

INSIST_SECONDS: Final = 1.0
SOON_SECONDS: Final = 0.05
_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """What asked us to stop: noted at any time, raised only while we wait.

    Python raises KeyboardInterrupt wherever it stands. In an import it leaves half a module, after
    a fork a process that nobody knows, in a finalizer it is printed and forgotten:
    https://docs.python.org/3/library/signal.html#note-on-signal-handlers-and-exceptions
    """

    def __init__(self) -> None:
        self.came = False
        self._heeded = False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """From here on they are only noted; what our parent ignores, as nohup does, stays so."""
        before = {number: signal.getsignal(number) for number in _NUMBERS}
        ours = {
            number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)
        }
        for number in ours:
            signal.signal(number, self._note)
        try:
            yield
        finally:
            for number in ours:
                signal.signal(number, before[number])

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """While we wait: KeyboardInterrupt at once, and again each second if it is swallowed."""
        before = signal.signal(signal.SIGALRM, self._again)
        timer = signal.setitimer(signal.ITIMER_REAL, INSIST_SECONDS, INSIST_SECONDS)
        self._heeded = True
        try:
            self._raise()
            yield
        finally:
            self._heeded = False
            signal.setitimer(signal.ITIMER_REAL, *timer)
            signal.signal(signal.SIGALRM, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        self._raise()

    def _again(self, number: int, frame: FrameType | None) -> None:
        self._raise()

    def _raise(self) -> None:
        if self.came and self._heeded:
            raise KeyboardInterrupt


@contextmanager
def remembered() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C came, also where its KeyboardInterrupt became an error of somebody else.

    A library may catch it while it is imported and raise its own: an extension module that was
    interrupted in the middle is an ImportError. In a finalizer or a callback of the import system
    Python would print and forget it: there it comes again a moment later. A handler that somebody
    set stays as it is.
    """
    came = False
    pending: list[threading.Timer] = []

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    def again(unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            told(unraisable)
            return
        # To the main thread itself: a wait of its own ends by a signal of its own only.
        main = (threading.main_thread().ident, signal.SIGINT)
        timer = threading.Timer(SOON_SECONDS, signal.pthread_kill, main)
        timer.daemon = True
        pending.append(timer)
        timer.start()

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    told = sys.unraisablehook
    if ours:
        signal.signal(signal.SIGINT, note)
        sys.unraisablehook = again
    try:
        yield lambda: came
    finally:
        if ours:
            sys.unraisablehook = told
            for timer in pending:
                timer.cancel()
            signal.signal(signal.SIGINT, signal.default_int_handler)


# Processes that run until a signal comes: their end, and their log.


@contextmanager
def signals(ended: threading.Event) -> Iterator[set[int]]:
    """Ctrl-C and SIGTERM end it; which of them came."""
    came: set[int] = set()

    def end(number: int, frame: FrameType | None) -> None:
        came.add(number)
        ended.set()

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def log_warnings() -> None:
    """Warnings as lines on stderr."""
    # Its retries are told by who made the request, in words.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        VisibleFormatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
