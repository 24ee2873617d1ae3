"""Traffic and links of the network devices, from /proc/net/dev and /sys/class/net."""

import errno
import re
from dataclasses import dataclass
from typing import NamedTuple

from lockstep.collector.clock import Clock
from lockstep.collector.files.persistent_fds import PersistentFds
from lockstep.collector.readings.source import Rejected, SourceError
from lockstep.collector.sources.network.netdev.devices import Devices, Traffic

UP = "up"
NOT_UP = frozenset(("down", "lowerlayerdown", "dormant", "testing", "notpresent"))
"""Words of operstate (RFC 2863); `unknown` is what drivers leave that do not tell."""
_COUNT = re.compile(rb"[0-9]{1,10}\n")
_SPEED = re.compile(rb"[0-9]{1,8}\n")
_UNKNOWN_SPEEDS = (b"-1\n", b"4294967295\n")


class Link(NamedTuple):
    """State of one device; None = not told. `speed` is bytes a second, `mtu` bytes."""

    up: bool | None = None
    carrier_changes: int | None = None
    speed: float | None = None
    mtu: int | None = None


@dataclass(frozen=True, slots=True)
class NetworkDevices:
    """The devices that are shown."""

    devices: tuple[tuple[Traffic, Link], ...]
    rejected: tuple[Rejected, ...]


class _Speed(NamedTuple):
    """What the driver said, and when: after how many changes of the carrier, at which second."""

    value: float | None
    carrier_changes: int | None
    read_at: float


class Netdev:
    """Source of NetworkDevices.

    Args:
        devices: Which devices are shown.
        clock: Says when a speed has to be asked again.
        slow_period: Seconds for which a speed holds, unless the carrier changed: the kernel asks
            the adapter's firmware for it under the lock of all network configuration.
    """

    name = "netdev"

    def __init__(self, devices: Devices, clock: Clock, slow_period: float) -> None:
        self._devices, self._clock, self._slow_period = devices, clock, slow_period
        self._files = PersistentFds()
        self._speeds: dict[str, _Speed] = {}
        self._before: set[str] = set()

    def available(self) -> bool:
        """Whether there is a network namespace."""
        return self._devices.table.exists()

    def read(self) -> NetworkDevices:
        """Read all devices; what one does not tell is left out alone.

        Raises:
            SourceError: /proc/net/dev is missing or malformed.
        """
        shown = self._devices.read()
        rejected = list(shown.rejected)
        names = {traffic.device for traffic in shown.traffic}
        for gone in self._before - names:
            self._speeds.pop(gone, None)
            self._files.close_below(str(self._devices.folder / gone))
        self._before = names
        devices = [
            (traffic, self._link(traffic.device, rejected) if shown.in_sysfs else Link())
            for traffic in shown.traffic
        ]
        return NetworkDevices(tuple(devices), tuple(rejected))

    def close(self) -> None:
        """Close what is kept open."""
        self._files.close()

    def _link(self, device: str, rejected: list[Rejected]) -> Link:
        folder = f"{self._devices.folder}/{device}"

        def read(name: str) -> int | None:
            try:
                return number(self._files, f"{folder}/{name}")
            except SourceError as error:
                rejected.append(Rejected.of(error))
                return None

        try:
            up = is_up(self._files, f"{folder}/operstate")
        except SourceError as error:
            rejected.append(Rejected.of(error))
            if error.reason == "missing":  # the whole device: said once, not once a file
                return Link()
            up = None
        changes = read("carrier_changes")
        speed = self._speed(device, changes, rejected) if up else None
        return Link(up, changes, speed, read("mtu"))

    def _speed(self, device: str, changes: int | None, rejected: list[Rejected]) -> float | None:
        now, known = self._clock.monotonic(), self._speeds.get(device)
        if (
            known is None
            or known.carrier_changes != changes
            or now - known.read_at >= self._slow_period
        ):
            value = None
            try:
                value = bytes_per_second(self._files, f"{self._devices.folder}/{device}/speed")
            except SourceError as error:
                # EINVAL: the driver does not tell, or the link went down since operstate was read.
                if getattr(error.__cause__, "errno", None) != errno.EINVAL:
                    rejected.append(Rejected.of(error))
            known = self._speeds[device] = _Speed(value, changes, now)
        return known.value


def is_up(files: PersistentFds, path: str) -> bool | None:
    """Whether operstate is up; None where the driver does not tell.

    Raises:
        SourceError: It cannot be read, or is no word of operstate.
    """
    word = files.read(path).removesuffix(b"\n").decode("ascii", "replace")
    if word == UP or word in NOT_UP:
        return word == UP
    if word != "unknown":
        raise SourceError("content", f"{path} is {word[:24]!r}; it must be up, down or the like")
    return None


def number(files: PersistentFds, path: str) -> int:
    """A count of at most 32 bits.

    Raises:
        SourceError: It cannot be read, or is none.
    """
    text = files.read(path)
    if _COUNT.fullmatch(text) is None or int(text) >= 1 << 32:
        raise SourceError("content", f"{path} is {text[:24]!r}, no number")
    return int(text)


def bytes_per_second(files: PersistentFds, path: str) -> float | None:
    """Speed from megabits; None where the driver does not know it (-1).

    Raises:
        SourceError: It cannot be read, or is no number.
    """
    text = files.read(path)
    if text in _UNKNOWN_SPEEDS:
        return None
    if _SPEED.fullmatch(text) is None:
        raise SourceError("content", f"{path} is {text[:24]!r}, not a number of megabits a second")
    return int(text) * 1e6 / 8
