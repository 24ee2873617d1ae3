"""A mapping whose values are made when they are asked for, and not kept.

Grids of every series of a run that nobody asks for would be most of its memory.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

Value = TypeVar("Value")


class OnDemand(Mapping[str, Value]):
    """A mapping.

    Args:
        make: Key -> what makes its value, the same each time.
    """

    def __init__(self, make: Mapping[str, Callable[[], Value]]) -> None:
        self._make = make

    def __getitem__(self, key: str) -> Value:
        """The value, made anew."""
        return self._make[key]()

    def __contains__(self, key: object) -> bool:
        """Whether it is a key, without making its value."""
        return key in self._make

    def __iter__(self) -> Iterator[str]:
        """The keys."""
        return iter(self._make)

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._make)
