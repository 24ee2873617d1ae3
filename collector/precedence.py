"""One source of GPUs feeds the page at a time: a better one that has GPUs keeps the others off."""

from collections.abc import Sequence
from typing import Protocol

from collector.gpu_reading import GpuReading


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

    Args:
        source: What is read.
        better: Those that come before it.
    """

    def __init__(self, source: GpuSource, better: Sequence["Ranked"] = ()) -> None:
        self._source = source
        self._better = better
        self.name = source.name
        self.serving = False

    def available(self) -> bool:
        """Whether it is its turn, and it has something to read."""
        self.serving = self.serving and not self._kept_off()
        return not self._kept_off() and self._source.available()

    def why_not(self) -> str:
        """What is missing, or who serves in its place."""
        if self._kept_off():
            serving = next(one.name for one in self._better if one.serving)
            return f"{serving} feeds the page"
        return self._source.why_not()

    def close(self) -> None:
        """End what the source started."""
        close = getattr(self._source, "close", None)
        if close is not None:
            close()

    def read(self) -> GpuReading:
        """A fresh reading; serves from the first one with GPUs until one fails.

        Raises:
            SourceError: As the source's.
        """
        self.serving, before = False, self.serving
        reading = self._source.read()
        self.serving = bool(reading.gpus) or (before and reading.stalled)
        return reading

    def _kept_off(self) -> bool:
        return any(one.serving for one in self._better)
