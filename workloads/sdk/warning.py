"""What the recording says when something is wrong with it: one line, once."""

import sys

_said: set[str] = set()


def warn(sentence: str) -> None:
    """Write the sentence to stderr unless it was written before; never raises."""
    if sentence in _said or sys.stderr is None:
        return
    _said.add(sentence)
    try:
        print(f"lockstep: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 - no other way
    except (OSError, ValueError):
        return  # closed; the program may have done that on purpose
