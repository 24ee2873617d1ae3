"""What the recording says when something is wrong with it: one line, once.

Nothing here raises but what a signal handler of the program does.
"""

import sys
from collections.abc import Callable

from lockstep.workloads.sdk.signals import pass_on

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
