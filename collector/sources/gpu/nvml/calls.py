"""Calls of NVML: None where a GPU lacks something, failures are counted, fatal ones raised."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from lockstep.collector.sources.gpu.nvml import binding
from lockstep.collector.sources.gpu.nvml.binding import NvmlError


class GpuLostError(Exception):
    """The GPU is off the bus or wants a reset; nothing else it says counts."""


class LibraryGoneError(Exception):
    """The driver was unloaded or reloaded: handles are worth nothing any more."""


class Asker:
    """Asks one GPU. Failures are counted by NVML's word until they are taken."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()

    def ask(self, name: str, *arguments: Any) -> Any:
        """What a function of NVML says; None if this GPU does not have it or it failed.

        Raises:
            GpuLostError: The GPU is lost.
            LibraryGoneError: The driver is not there any more.
        """
        try:
            return binding.call(name, *arguments)
        except NvmlError as error:
            self.failed(error.code)
            return None

    def attempt(self, read: Callable[[], Any]) -> Any:
        """As `ask`, of any reading."""
        try:
            return read()
        except NvmlError as error:
            self.failed(error.code)
            return None

    def failed(self, code: int) -> None:
        """Count a return code, unless it means that there is nothing to tell.

        Raises:
            GpuLostError: As `ask`.
            LibraryGoneError: As `ask`.
        """
        if code in binding.LOST:
            raise GpuLostError(binding.word(code))
        if code in binding.GONE:
            raise LibraryGoneError(binding.word(code))
        if code not in binding.ABSENT:
            self.failures[binding.word(code)] += 1

    def taken(self) -> dict[str, int]:
        """What failed since it was last asked."""
        failures, self.failures = self.failures, Counter()
        return dict(failures)


class Known:
    """What was told once and does not change; what failed is asked again the next time."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._told: dict[str, Any] = {}

    def learn(self, what: str, read: Callable[[], Any]) -> None:
        """Ask, unless it is known already; None is knowledge too: this GPU does not have it."""
        if what in self._told:
            return
        before = self._asker.failures.total()
        value = self._asker.attempt(read)
        if self._asker.failures.total() == before:
            self._told[what] = value

    def get(self, what: str) -> Any:
        """What was told, or None."""
        return self._told.get(what)

    def words(self, *names: str) -> dict[str, str]:
        """Those of them that were told, as words."""
        return {name: text(told) for name in names if (told := self._told.get(name)) is not None}


def text(value: Any) -> str:
    """What NVML says in words; older bindings give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
