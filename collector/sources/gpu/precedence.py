"""One source of GPUs feeds the page at a time, the best that has GPUs; and which it last read."""

import threading
from collections.abc import Sequence
from typing import Protocol

from lockstep.collector.readings.gpu import Gpu, GpuReading

PATIENCE_SECONDS = 1.5
"""How long the first answer of a better source is waited for; less than a reading's deadline."""


class GpuSource(Protocol):
    """A source that reads GPUs."""

    @property
    def name(self) -> str:
        """The `source` label."""
        ...

    def available(self) -> bool:
        """Whether this node has what the source reads."""
        ...

    def why_not(self) -> str:
        """What is missing when it is not available."""
        ...

    def read(self) -> GpuReading:
        """A fresh reading."""
        ...


class Ranked:
    """A source of GPUs that is silent while a better one serves.

    Whether it serves is settled when a reading ends, fails, or cannot be had at all, and stands
    while one is under way: one that stands still goes on serving, as stalled. Each is read by a
    thread of its own, so that who comes first is waited for before the others begin.

    Args:
        source: What is read.
        better: Those that come before it.
        patience: Seconds to wait for each of them; one that does not answer is passed over until
            it does.
    """

    def __init__(
        self,
        source: GpuSource,
        better: Sequence["Ranked"] = (),
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._source = source
        self._better = tuple(better)
        self._patience = patience
        self._settled = threading.Event()
        self.name = source.name
        self.serving = False

    def available(self) -> bool:
        """Whether it is its turn, and it has something to read; waits for the better ones."""
        if self._kept_off():
            # Its last reading is void: once the better one fails, it is waited for like at first.
            self.serving = False
            self._settled.clear()
            return False
        here = False
        try:
            here = self._source.available()
        finally:
            if not here:
                self._settle(serving=False)
        return here

    def why_not(self) -> str:
        """What is missing, or who serves in its place."""
        for source in self._better:
            if source.serving:
                return f"{source.name} feeds the page"
        return self._source.why_not()

    def close(self) -> None:
        """End what the source started."""
        close = getattr(self._source, "close", None)
        if close is not None:
            close()

    @property
    def restarts(self) -> int | None:
        """Times that its process ended unasked; None if it has no process."""
        return getattr(self._source, "restarts", None)

    def read(self) -> GpuReading:
        """A fresh reading; serves from the first one with GPUs until one fails or has none.

        Raises:
            SourceError: As the source's.
        """
        try:
            reading = self._source.read()
        except BaseException:
            self._settle(serving=False)
            raise
        self._settle(serving=bool(reading.gpus) or (self.serving and reading.stalled))
        return reading

    def _settle(self, *, serving: bool) -> None:
        self.serving = serving
        self._settled.set()

    def _kept_off(self) -> bool:
        for source in self._better:
            if not source._settled.wait(self._patience):
                source._settled.set()  # it had its time: nobody waits for it again
            if source.serving:
                return True
        return False


# The GPUs of this node, by the last reading of the source that feeds the page.


class GpuInventory:
    """Looks over the shoulder of the sources of GPUs, so that nobody asks a driver twice."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[Gpu, ...]] = {}

    def watching(self, source: GpuSource) -> "NotedGpuSource":
        """The source; what it reads is noted. Better sources are handed in first."""
        self._told[source.name] = ()
        return NotedGpuSource(source, self._told)

    def gpus(self) -> tuple[Gpu, ...]:
        """GPUs of the best source that has some; empty when none answers."""
        return next((gpus for gpus in self._told.values() if gpus), ())

    def source(self) -> str:
        """The source that read them; empty when none answers."""
        return next((name for name, gpus in self._told.items() if gpus), "")


class NotedGpuSource:
    """A source of GPUs whose last reading is noted under its name."""

    def __init__(self, source: GpuSource, readings: dict[str, tuple[Gpu, ...]]) -> None:
        self._source = source
        self._told = readings
        self.name = source.name

    def available(self) -> bool:
        """Whether this node has what the source reads."""
        there = self._source.available()
        if not there:
            self._told[self.name] = ()
        return there

    def why_not(self) -> str:
        """What is missing when it is not available."""
        return self._source.why_not()

    def close(self) -> None:
        """End what the source started."""
        close = getattr(self._source, "close", None)
        if close is not None:
            close()

    @property
    def restarts(self) -> int | None:
        """Times that its process ended unasked; None if it has no process."""
        return getattr(self._source, "restarts", None)

    def read(self) -> GpuReading:
        """A fresh reading.

        Raises:
            SourceError: As the source's; its GPUs are forgotten.
        """
        gpus: tuple[Gpu, ...] = ()
        try:
            reading = self._source.read()
            gpus = reading.gpus
        finally:
            self._told[self.name] = gpus
        return reading
