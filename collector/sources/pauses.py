"""Questions that are refused are not asked again at once: each time longer, up to an hour.

A driver that cannot answer (EINVAL, EIO) writes a line into the kernel's log at each attempt, which
is where XIDs are and where people look.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

FIRST_SECONDS = 240.0
LONGEST_SECONDS = 3600.0


class _Pause(NamedTuple):
    until: float
    seconds: float


class Pauses:
    """Who is left alone, and until when.

    Args:
        monotonic: Seconds of a clock that never goes back.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._pauses: dict[Hashable, _Pause] = {}

    def __bool__(self) -> bool:
        return bool(self._pauses)

    def waits(self, who: Hashable) -> bool:
        """Whether it was refused not long ago."""
        pause = self._pauses.get(who)
        return pause is not None and self._monotonic() < pause.until

    def refused(self, who: Hashable) -> float:
        """It was refused now; the seconds until it is asked again, twice those of last time."""
        before = self._pauses.get(who)
        seconds = FIRST_SECONDS if before is None else min(2 * before.seconds, LONGEST_SECONDS)
        self._pauses[who] = _Pause(self._monotonic() + seconds, seconds)
        return seconds

    def answered(self, who: Hashable) -> None:
        """It has answered: the next refusal is a first one."""
        self._pauses.pop(who, None)

    def keep(self, there: Callable[[Hashable], bool]) -> None:
        """Forget what is not there any more."""
        self._pauses = {who: pause for who, pause in self._pauses.items() if there(who)}
