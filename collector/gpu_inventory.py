"""Which GPUs this node has, as the source that feeds the page last told."""

from lockstep.collector.gpu_reading import Gpu, GpuReading
from lockstep.collector.precedence import GpuSource


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
        """Who told of them; empty when none answers."""
        return next((name for name, gpus in self._told.items() if gpus), "")


class NotedGpuSource:
    """A source of GPUs whose last reading is noted under its name."""

    def __init__(self, source: GpuSource, told: dict[str, tuple[Gpu, ...]]) -> None:
        self._source = source
        self._told = told
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
