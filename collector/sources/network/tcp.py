"""What TCP had to send again, from /proc/net/snmp and /proc/net/netstat."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.files.persistent_fds import PersistentFd
from lockstep.collector.readings.source import Rejected, SourceError

LIMIT = 1 << 20
_NUMBER = re.compile(rb"[0-9]{1,20}")
_WANTED = {
    "snmp": ("Tcp", ("InSegs", "OutSegs", "RetransSegs")),
    "netstat": ("TcpExt", ("TCPSynRetrans", "TCPTimeouts")),
}


@dataclass(frozen=True, slots=True)
class Tcp:
    """Counters of this network namespace by the kernel's names (RFC 4022 and TcpExt)."""

    counts: dict[str, int]
    rejected: tuple[Rejected, ...]


class TcpCounters:
    """Source of Tcp.

    Args:
        proc: Where procfs is mounted.
        elsewhere: Whether it is of another network than the node's.
    """

    name = "tcp"

    def __init__(self, proc: Path, elsewhere: Callable[[], bool] = lambda: False) -> None:
        self._elsewhere = elsewhere
        self._tables = [
            _Table(proc / "net" / name, title, wanted) for name, (title, wanted) in _WANTED.items()
        ]

    def available(self) -> bool:
        """Whether there is a network namespace, and it is the node's."""
        return any(table.file.exists() for table in self._tables) and not self._elsewhere()

    def why_not(self) -> str:
        """What is missing."""
        return "this network is a pod's, not the node's" if self._elsewhere() else "no /proc/net"

    def read(self) -> Tcp:
        """Read both files; one that fails is left out alone."""
        counts: dict[str, int] = {}
        rejected: list[Rejected] = []
        for table in self._tables:
            try:
                counts |= table.read()
            except SourceError as error:
                rejected.append(Rejected.of(error))
        return Tcp(counts, tuple(rejected))


class _Table:
    """A line of names and a line of values below it; the names are looked up once."""

    def __init__(self, path: Path, title: str, wanted: tuple[str, ...]) -> None:
        self.file = PersistentFd(path, LIMIT)
        self._title, self._wanted = title, wanted
        self._lines = re.compile(rf"^{title}: (.*)\n{title}: (.*)\n".encode(), re.MULTILINE)
        self._names = b""
        self._columns: list[int] = []

    def read(self) -> dict[str, int]:
        """The wanted counts.

        Raises:
            SourceError: The file cannot be read, there is no such pair of lines, the two do not
                fit, or a count is missing.
        """
        pairs = self._lines.findall(self.file.read())
        if len(pairs) != 1:
            raise self._not("is not a line of names and one of values")
        names, values = pairs[0]
        fields = values.split()
        if names != self._names:
            self._names, self._columns = names, self._looked_up(names.split())
        if len(fields) != names.count(b" ") + 1:
            raise self._not("has not one value a name")
        columns = [fields[column] for column in self._columns]
        if not all(map(_NUMBER.fullmatch, columns)):
            raise self._not(f"has no number for one of {', '.join(self._wanted)}")
        return dict(zip(self._wanted, map(int, columns), strict=True))

    def _looked_up(self, names: list[bytes]) -> list[int]:
        try:
            return [names.index(name.encode()) for name in self._wanted]
        except ValueError as error:
            raise self._not(f"lacks one of {', '.join(self._wanted)}") from error

    def _not(self, why: str) -> SourceError:
        return SourceError("content", f"{self.file.path}: {self._title} {why}")
