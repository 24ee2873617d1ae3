"""What time it is: the wall clock, the monotonic clock, and waiting."""

import time
from typing import Protocol


class Clock(Protocol):
    """Time as the collector sees it; a test injects its own."""

    def wall(self) -> float:
        """Unix time in seconds; may be stepped."""
        ...

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC, the clock of the rank rings; never stepped."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def wall(self) -> float:
        """Unix time in seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of CLOCK_MONOTONIC."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
