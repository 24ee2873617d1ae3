"""Exceptions that a signal handler of the program raises while our code runs: they are its own.

Python calls handlers between any two instructions of the main thread, so within ours, too.
"""

import signal
from types import CodeType
from typing import Any


def pass_on(error: Exception) -> None:
    """Raise it again if a signal handler that is installed raised it; called where it was caught.

    Raises:
        Exception: The error.
    """
    trace = error.__traceback__
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame.f_code)
        trace = trace.tb_next
    if not _handlers().isdisjoint(frames):
        raise error


def _handlers() -> set[CodeType]:
    """The code of all handlers in Python: functions, methods, objects that can be called."""
    known: set[CodeType] = set()
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        if callable(handler):
            called = getattr(handler, "func", handler)  # of functools.partial
            code = getattr(called, "__code__", None) or getattr(called.__call__, "__code__", None)
            if isinstance(code, CodeType):
                known.add(code)
    return known
