"""Warnings of the recording: one line each, written once.

They raise only what a signal handler of the program raises.
"""

import inspect
import signal
import sys
from collections.abc import Callable
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

MOST_SAID = 50
"""Lines of a process about arguments; as many more are kept for what ails the recording itself."""
_LONGEST = 300
_said: set[str] = set()


def warn(sentence: str) -> None:
    """Write the sentence to stderr unless it was written before; never raises."""
    if sentence in _said or len(_said) >= 2 * MOST_SAID:
        return
    _said.add(sentence)
    _write(sentence)


def warn_about(argument: str, sentence: Callable[[], str]) -> None:
    """Write what is wrong with an argument that the program gives; never raises, once an argument.

    Args:
        sentence: Makes it; called only where it is written, for a value may be dear to show.
    """
    if argument in _said or len(_said) >= MOST_SAID:
        return
    _said.add(argument)
    _write(sentence())


def _write(sentence: str) -> None:
    if sys.stderr is None:  # print would take stdout then
        return
    try:
        print(f"lockstep: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 - no other way
    except Exception as error:  # noqa: BLE001 - closed, replaced, or full
        pass_on(error)
        return  # the program may have done that on purpose


def warn_of(sentence: str, error: BaseException) -> None:
    """Write what failed, and by which error, in one line; never raises, once a sentence."""
    if sentence in _said:
        return
    _said.add(sentence)
    try:
        (reason, *_) = str(error).splitlines() or [""]
    except Exception as failure:  # noqa: BLE001 - a foreign exception may fail to say what it is
        pass_on(failure)
        reason = ""
    name = type(error).__name__
    warn(f"{sentence}: {name}: {reason}"[:_LONGEST] if reason else f"{sentence}: {name}")


def shown(value: object) -> str:
    """The value in a sentence: short, whatever it is; never raises."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - whatever a foreign type raises
        pass_on(error)
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


# Exceptions that a signal handler of the program raises while our code runs are the program's own.
#
# Python calls handlers between any two instructions of the main thread, so within ours, too. It
# gives them the number of the signal and the frame that was interrupted.


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
