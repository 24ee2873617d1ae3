"""Small files of an adapter; a file that it refuses is not read again at once."""

from collections.abc import Callable
from typing import Protocol

from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.pauses import Pauses

GROUP_SECONDS = 120.0
"""How long files of the same kind and device wait that have not answered, once one was refused: the
kernel asks the firmware the same for all of them. Less than a file's own pause, so that others of
the group have their turn before it."""


class PausedError(SourceError):
    """It was refused not long ago and is not asked now; no failure that counts anew."""

    def __init__(self, path: str) -> None:
        super().__init__("paused", f"{path} was refused and is left alone")


class Files(Protocol):
    """What reads small files."""

    def read(self, path: str) -> bytes:
        """The file's text, or its beginning.

        Raises:
            SourceError: As `lockstep.collector.files.opening.opened`.
        """
        ...


_Group = tuple[str, str]
"""A device and a kind of question: `counters`, `hw_counters`, or empty for a port's own files."""


class Patience:
    """What was refused, between readings.

    Args:
        root: The folder of the devices.
        monotonic: Seconds of a clock that never goes back.
    """

    def __init__(self, root: str, monotonic: Callable[[], float]) -> None:
        self._root = root
        self._monotonic = monotonic
        self._files = Pauses(monotonic)
        self._groups: dict[_Group, float] = {}
        self._good: set[str] = set()

    def over(self, files: Files) -> "PatientFiles":
        """Reads by these files."""
        return PatientFiles(files, self)

    def waits(self, path: str) -> bool:
        """Whether it, or the others of its kind, were refused not long ago."""
        if not self._files and not self._groups:  # nearly always
            return False
        group = self._group(path)
        if self._monotonic() < self._groups.get(group, 0.0):
            return path not in self._good
        return self._files.waits(path)

    def answered(self, path: str) -> None:
        """It gave a text."""
        self._good.add(path)
        if self._files:
            self._files.answered(path)

    def refused(self, path: str) -> float:
        """It failed; the seconds until it is asked again.

        Those of its group that have answered go on; if it was one of them, the device is not what
        it was, and all wait.
        """
        group = self._group(path)
        if path in self._good:
            self._good = {one for one in self._good if self._group(one) != group}
        self._groups[group] = self._monotonic() + GROUP_SECONDS
        return self._files.refused(path)

    def _group(self, path: str) -> _Group:
        """Of `ROOT/DEVICE/ports/PORT/KIND/NAME`, `ROOT/DEVICE/ports/PORT/NAME` and others."""
        device, *parts = path[len(self._root) + 1 :].split("/")
        return device, parts[2] if len(parts) == 4 else ""


class PatientFiles:
    """Files that are not read while they wait."""

    def __init__(self, files: Files, patience: Patience) -> None:
        self._files = files
        self._patience = patience

    def read(self, path: str) -> bytes:
        """The file's text.

        Raises:
            PausedError: It was refused not long ago.
            SourceError: As `Files.read`.
        """
        if self._patience.waits(path):
            raise PausedError(path)
        try:
            text = self._files.read(path)
        except SourceError as error:
            if error.reason != "io":  # gone, or not for this user: nothing was asked
                raise
            seconds = self._patience.refused(path)
            raise SourceError(
                "io", f"{error}; it is left alone for {seconds / 60:g} minutes"
            ) from error
        self._patience.answered(path)
        return text
