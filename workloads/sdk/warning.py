"""What the recording says when something is wrong with it: one line, once."""

import sys

MOST_SAID = 50
"""Lines of a process; a program that has another fault in each step says no more."""
_LONGEST = 300
_said: set[str] = set()


def warn(sentence: str) -> None:
    """Write the sentence to stderr unless it was written before; never raises."""
    if sentence in _said or len(_said) >= MOST_SAID:
        return
    _said.add(sentence)
    try:
        print(f"lockstep: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 - no other way
    except Exception:  # noqa: BLE001 - closed, replaced, or full
        return  # the program may have done that on purpose


def warn_of(sentence: str, error: BaseException) -> None:
    """Write what failed, and by which error, in one line; never raises, once a sentence."""
    if sentence in _said:
        return
    _said.add(sentence)
    try:
        (reason, *_) = str(error).splitlines() or [""]
    except Exception:  # noqa: BLE001 - a foreign exception may fail to say what it is
        reason = ""
    name = type(error).__name__
    warn(f"{sentence}: {name}: {reason}"[:_LONGEST] if reason else f"{sentence}: {name}")


def shown(value: object) -> str:
    """The value in a sentence: short, whatever it is; never raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever a foreign type raises
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
