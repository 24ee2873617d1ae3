"""Which network devices the node has, what passed through them, and which are shown.

Shown are the devices with hardware behind them; where there is none (a container, an emulated
node), all but the loopback. A bond or VLAN is not shown: its traffic is that of its devices.

/proc/net is of this process' network namespace, a mount of sysfs of the one that mounted it. In
a pod without the host's network they differ: then a sysfs that was given (`--sys`) is the node's,
and its counters are read instead of the pod's.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.files.opening import MAX_ENTRIES, read_bytes, read_lines
from lockstep.collector.readings.source import Rejected, SourceError

LIMIT = 1 << 20
LOOPBACK = "lo"
MAX_DEVICES = 64

_LINE = re.compile(r"\s*(\S{1,15}):\s*([0-9]{1,20}(?:\s+[0-9]{1,20}){15})\s*", re.ASCII)
_COUNTER = re.compile(rb"[0-9]{1,20}\n")


class Traffic(NamedTuple):
    """Counters of one device since its driver started; each is (received, sent)."""

    device: str
    bytes: tuple[int, int]
    packets: tuple[int, int]
    errors: tuple[int, int]
    drops: tuple[int, int]


class Shown(NamedTuple):
    """The devices that are shown, and whether sysfs has them."""

    traffic: list[Traffic]
    in_sysfs: bool
    rejected: list[Rejected]


class Devices:
    """The network devices of the node.

    Args:
        proc: Where procfs is mounted.
        sys: Where sysfs is mounted.
        virtual: Show devices without hardware too.
        nodes_sysfs: That sysfs is the node's, whatever network this process is in.
    """

    def __init__(
        self, proc: Path, sys: Path, *, virtual: bool = False, nodes_sysfs: bool = False
    ) -> None:
        self.table, self.folder = proc / "net" / "dev", sys / "class" / "net"
        self._virtual = virtual
        self._nodes_sysfs = nodes_sysfs
        self._told_foreign = False
        self._names: set[str] = set()
        self._physical: set[str] = set()
        self._same_namespace = False

    def names(self) -> list[str]:
        """Names of the devices that are shown and that this process can ask its kernel about.

        Raises:
            SourceError: As `read`.
        """
        shown = [traffic.device for traffic in self.read().traffic]
        return [] if self.elsewhere() else shown

    def elsewhere(self) -> bool:
        """Whether this process' network is another than the node's, by a sysfs that is the node's.

        What /proc/net and the kernel's calls tell is then of a pod, and of no use.
        """
        if not self._nodes_sysfs or self._same_namespace:
            return False
        try:
            _, names, own = self._looked_at()
        except SourceError:
            return False
        return names is not None and names != own

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
        others = [device for device in traffic if device.device != LOOPBACK]
        shown = [device for device in others if device.device in self._physical]
        if self._virtual or not shown:
            shown += [device for device in others if device.device not in self._physical]
        if len(shown) > MAX_DEVICES:
            message = f"{len(shown)} network devices; the first {MAX_DEVICES} are read"
            rejected.append(Rejected("too_many", message))
        return Shown(shown[:MAX_DEVICES], names is not None, rejected)

    def _looked_at(self) -> tuple[list[Traffic], set[str] | None, set[str]]:
        """The table, the names in sysfs (None: there is none), and the table's names."""
        try:
            traffic = list(traffic_of(read_lines(self.table, LIMIT)))
        except ValueError as error:
            raise SourceError("content", f"{self.table}: {error}") from error
        own = {device.device for device in traffic}
        try:
            with os.scandir(self.folder) as entries:
                some = islice(entries, MAX_ENTRIES)
                # bonding_masters lies there too, and is a file.
                return traffic, {entry.name for entry in some if entry.is_dir()}, own
        except OSError:
            return traffic, None, own

    def _both(self) -> tuple[list[Traffic], set[str] | None, list[Rejected]]:
        """The table, the names in sysfs (None: it tells nothing of these devices), and errors."""
        for _ in range(2):  # a device may come or go between the two readings
            traffic, names, own = self._looked_at()
            if names is None:
                return traffic, None, [Rejected("missing", f"{self.folder} cannot be read")]
            if names == own:
                self._same_namespace = True
                return traffic, names, []
        if self._same_namespace:  # it stays so: devices only come and go faster than they are read
            return traffic, names, []
        if self._nodes_sysfs and names is not None:
            rejected: list[Rejected] = []
            return list(traffic_in(self.folder, names, rejected)), names, rejected
        # It stays so: logged once, not at each reading.
        first, self._told_foreign = not self._told_foreign, True
        message = (
            f"{self.folder} does not list the devices of {self.table}: it belongs to another"
            " network namespace; where it is the node's, give it as --sys, and they are read"
        )
        return traffic, None, [Rejected("namespace", message)] if first else []


def traffic_in(folder: Path, names: set[str], rejected: list[Rejected]) -> Iterator[Traffic]:
    """The devices by the counters in sysfs; one without them, or that goes, is left out.

    Files: https://www.kernel.org/doc/Documentation/ABI/testing/sysfs-class-net-statistics
    """
    for name in sorted(names):
        try:
            pairs = [
                (_counter(folder / name, f"rx_{what}"), _counter(folder / name, f"tx_{what}"))
                for what in ("bytes", "packets", "errors", "dropped")
            ]
        except SourceError as error:
            if error.reason != "missing":
                rejected.append(Rejected.of(error))
            continue
        yield Traffic(name, *pairs)


def _counter(device: Path, name: str) -> int:
    path = device / "statistics" / name
    text = read_bytes(path, 32)
    if _COUNTER.fullmatch(text) is None:
        raise SourceError("content", f"{path} is {text[:24]!r}, no count")
    return int(text)


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
