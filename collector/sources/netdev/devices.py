"""Which network devices this namespace has, what passed through them, and which are shown.

Shown are the devices with hardware behind them; where there is none (a container, an emulated
node), all but the loopback. A bond or VLAN is not shown: its traffic is that of its devices.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from collector.files import MAX_ENTRIES, read_lines
from collector.reading import Rejected, SourceError

LIMIT = 1 << 20
LOOPBACK = "lo"
MAX_DEVICES = 64

_LINE = re.compile(r"\s*(\S{1,15}):\s*([0-9]{1,20}(?:\s+[0-9]{1,20}){15})\s*", re.ASCII)


class Traffic(NamedTuple):
    """Counters of one device since its driver started; each is (received, sent)."""

    device: str
    bytes: tuple[int, int]
    packets: tuple[int, int]
    errors: tuple[int, int]
    drops: tuple[int, int]


class Shown(NamedTuple):
    """The devices that are shown, and whether sysfs tells of the same ones."""

    traffic: list[Traffic]
    in_sysfs: bool
    rejected: list[Rejected]


class Devices:
    """The network devices of this process' network namespace.

    Args:
        proc: Where procfs is mounted.
        sys: Where sysfs is mounted.
        virtual: Show devices without hardware too.
    """

    def __init__(self, proc: Path, sys: Path, *, virtual: bool = False) -> None:
        self.table, self.folder = proc / "net" / "dev", sys / "class" / "net"
        self._virtual = virtual
        self._names: set[str] = set()
        self._physical: set[str] = set()
        self._same_namespace = False

    def names(self) -> list[str]:
        """Names of the devices that are shown.

        Raises:
            SourceError: As `read`.
        """
        return [one.device for one in self.read().traffic]

    def read(self) -> Shown:
        """Read the kernel's table and look up what is behind its devices.

        Raises:
            SourceError: /proc/net/dev is missing or malformed.
        """
        traffic, names, rejected = self._both()
        if names is None:
            self._names, self._physical = set(), set()
        elif names != self._names:
            self._physical = {name for name in names if is_physical(self.folder / name)}
            self._names = names
        others = [one for one in traffic if one.device != LOOPBACK]
        shown = [one for one in others if one.device in self._physical]
        if self._virtual or not shown:
            shown += [one for one in others if one.device not in self._physical]
        if len(shown) > MAX_DEVICES:
            message = f"{len(shown)} network devices; the first {MAX_DEVICES} are read"
            rejected.append(Rejected("too_many", message))
        return Shown(shown[:MAX_DEVICES], names is not None, rejected)

    def _both(self) -> tuple[list[Traffic], set[str] | None, list[Rejected]]:
        """The table, the names in sysfs (None: it tells nothing of these devices), and errors."""
        for _ in range(2):  # a device may come or go between the two readings
            try:
                traffic = list(traffic_of(read_lines(self.table, LIMIT)))
            except ValueError as error:
                raise SourceError("content", f"{self.table}: {error}") from error
            try:
                with os.scandir(self.folder) as entries:
                    some = islice(entries, MAX_ENTRIES)
                    # bonding_masters lies there too, and is a file.
                    names = {entry.name for entry in some if entry.is_dir()}
            except OSError as error:
                return traffic, None, [Rejected("missing", f"{self.folder}: {error.strerror}")]
            if names == {one.device for one in traffic}:
                self._same_namespace = True
                return traffic, names, []
        if self._same_namespace:  # it stays so: devices only come and go faster than they are read
            return traffic, names, []
        message = (
            f"{self.folder} does not list the devices of {self.table}: it belongs to another"
            " network namespace; run with the host's network (hostNetwork: true), or mount sysfs"
        )
        return traffic, None, [Rejected("namespace", message)]


def is_physical(folder: Path) -> bool:
    """Whether there is hardware (or a hypervisor's) behind a device, by its folder in sysfs."""
    return (folder / "device").exists() and "/devices/virtual/" not in os.path.realpath(folder)


def traffic_of(lines: list[str]) -> Iterator[Traffic]:
    """All devices, from the lines of /proc/net/dev.

    Raises:
        ValueError: The two title lines are missing, or a line below is not sixteen counters.
    """
    if len(lines) < 2:
        raise ValueError("the two title lines are missing")
    seen: set[str] = set()
    for line in lines[2:]:
        match = _LINE.fullmatch(line)
        if match is None or not match[1].isprintable():
            raise ValueError(f"{line[:80]!r} is not a network device")
        if match[1] in seen:
            continue
        seen.add(match[1])
        # Columns: bytes packets errs drop fifo frame compressed multicast | the same for sending.
        n = [int(field) for field in match[2].split()]
        yield Traffic(match[1], *((n[column], n[column + 8]) for column in range(4)))
