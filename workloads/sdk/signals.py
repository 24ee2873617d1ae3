"""Exceptions that a signal handler of the program raises while our code runs: they are its own.

Python calls handlers between any two instructions of the main thread, so within ours, too. It gives
them the number of the signal and the frame that was interrupted.
"""

import inspect
import signal
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any


def pass_on(error: BaseException) -> None:
    """Raise it again if a signal handler raised it; called where it was caught.

    A handler may have uninstalled itself before it raised, and may have dropped its arguments: it
    is known by either.

    Raises:
        BaseException: The error.
    """
    trace = error.__traceback__
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    if not _handlers().isdisjoint(frame.f_code for frame in frames) or any(
        _called_by_signal(frame) for frame in frames
    ):
        raise error


def _called_by_signal(frame: FrameType) -> bool:
    """Whether a signal's number and a frame are two of its arguments, one after the other."""
    names, variable, _, values = inspect.getargvalues(frame)
    arguments = [values.get(name) for name in names]
    more = values.get(variable) if variable else None
    if isinstance(more, tuple):
        arguments += more
    return any(
        isinstance(number, int) and isinstance(interrupted, FrameType)
        for number, interrupted in pairwise(arguments)
    )


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
