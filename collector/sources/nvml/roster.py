"""Which GPUs there should be: those that were seen since the driver was loaded."""

from collections.abc import Iterator, Set

from collector.gpu_reading import Gpu

MAX_KNOWN = 256
"""GPUs remembered; the first ones seen are forgotten first."""


class Roster:
    """Remembers GPUs, so that one that falls off the PCI bus leaves a trace.

    A GPU that was seen and is no more is told as down until it returns, until another version of
    the driver is loaded, or until the collector starts anew. MIG devices are not remembered: they
    come and go by design.
    """

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self._most = 0

    def counted(self, present: int) -> None:
        """So many GPUs were counted by the driver."""
        self._most = max(self._most, present)

    def saw(self, uuid: str, index: int) -> None:
        """This GPU answered."""
        self._indices[uuid] = index
        while len(self._indices) > MAX_KNOWN:
            del self._indices[next(iter(self._indices))]

    def forget(self) -> None:
        """The machine is another one now, by design."""
        self._indices, self._missing, self._most = {}, {}, 0

    def compare(self, here: Set[str]) -> None:
        """These are here now, and no other is on its way."""
        self._missing = {uuid: index for uuid, index in self._indices.items() if uuid not in here}

    def missing(self, here: Set[str]) -> Iterator[Gpu]:
        """Those that were missing at the last comparison and still are."""
        for uuid, index in self._missing.items():
            if uuid not in here:
                yield Gpu(index, uuid, up=False)

    def expected(self, on_the_bus: int | None) -> int | None:
        """GPUs on the bus now, or the most that the driver ever counted: whichever is more."""
        return max(on_the_bus or 0, self._most) if on_the_bus is not None or self._most else None
