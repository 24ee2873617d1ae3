"""What TCP had to send again, from /proc/net/snmp and /proc/net/netstat."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collector.files import read_lines
from collector.reading import Rejected, SourceError

LIMIT = 1 << 20
_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)
_WANTED = {
    "snmp": ("Tcp:", ("InSegs", "OutSegs", "RetransSegs")),
    "netstat": ("TcpExt:", ("TCPSynRetrans", "TCPTimeouts")),
}


@dataclass(frozen=True, slots=True)
class Tcp:
    """Counters of this network namespace by the kernel's names (RFC 4022 and TcpExt)."""

    counts: dict[str, int]
    rejected: tuple[Rejected, ...]


class TcpCounters:
    """Source of Tcp."""

    name = "tcp"

    def __init__(self, proc: Path) -> None:
        self._folder = proc / "net"

    def available(self) -> bool:
        """Whether there is a network namespace."""
        return any((self._folder / name).exists() for name in _WANTED)

    def read(self) -> Tcp:
        """Read both files; one that fails is left out alone."""
        counts: dict[str, int] = {}
        rejected: list[Rejected] = []
        for name, (title, wanted) in _WANTED.items():
            path = self._folder / name
            try:
                counts |= parse(read_lines(path, LIMIT), title, wanted)
            except SourceError as error:
                rejected.append(Rejected.of(error))
            except ValueError as error:
                rejected.append(Rejected("content", f"{path}: {error}"))
        return Tcp(counts, tuple(rejected))


def parse(lines: Sequence[str], title: str, wanted: Sequence[str]) -> dict[str, int]:
    """The wanted counts from a line of names and a line of values below it.

    Raises:
        ValueError: There is no such pair, the two do not fit, or a count is missing.
    """
    pair = [line.split()[1:] for line in lines if line.startswith(f"{title} ")]
    if len(pair) != 2 or len(pair[0]) != len(pair[1]):
        raise ValueError(f"{title} is not a line of names and one of values")
    found = dict(zip(*pair, strict=True))
    if not all(_NUMBER.fullmatch(found.get(name, "")) for name in wanted):
        raise ValueError(f"{title} lacks one of {', '.join(wanted)}")
    return {name: int(found[name]) for name in wanted}
