"""A phase has one place in every figure, and with it one colour and one pattern.

Whatever other phases are there, and in whatever order a source tells them.
"""

from collections.abc import Iterable

from collector.contract.words import PHASES

_PLACES = {str(phase): place for place, phase in enumerate(PHASES)}


def ordered(names: Iterable[str]) -> list[str]:
    """Phases in the order in which they run; what is none comes last, as it was."""
    return sorted(names, key=lambda name: _PLACES.get(name, len(_PLACES)))


def place(name: str, otherwise: int) -> int:
    """Of a phase among all of them; `otherwise` of what is none."""
    return _PLACES.get(name, otherwise)
