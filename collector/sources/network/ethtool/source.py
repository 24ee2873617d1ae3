"""What NIC drivers count beyond bytes: pauses, PHY errors, PCIe stalls (the statistics of ethtool).

A driver asks its firmware for them under the lock of all network configuration (milliseconds a
device), so that they are read every half minute.
"""

import ctypes
import errno
import fcntl
import mmap
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from lockstep.collector.contract.words import OTHER
from lockstep.collector.readings.source import IMPLAUSIBLE, Rejected, SourceError
from lockstep.collector.sources.network.ethtool.names import (
    ANY,
    GLOBAL,
    TROUBLE,
    Known,
    Meaning,
    What,
    is_alone,
    known,
)  # fmt: skip
from lockstep.collector.sources.pauses import Pauses
from lockstep.collector.sources.zero_series_folding import ZeroSeriesFolding

GSTRINGS, GSTATS, GSSET_INFO = 0x1B, 0x1D, 0x37
STATISTICS = 1
"""ETH_SS_STATS, the set of names that belongs to the statistics."""
NAME_BYTES = 32
MAX_STATISTICS = 4096
"""A driver of 400G NICs with 128 queues has about 3,000."""
PRIORITIES = 8
NO_COUNT = (1 << 64) - 1
"""What a register of a device that does not answer reads as: all bits are set."""
SET_INFO = struct.Struct("=IIQI")
"""struct ethtool_sset_info: cmd, reserved, mask of sets, size of the first set of the mask."""
STRINGS_HEAD = struct.Struct("=III")
"""struct ethtool_gstrings: cmd, set, number; then the names, 32 bytes each."""
STATS_HEAD = struct.Struct("=II")
"""struct ethtool_stats: cmd, number; then the values, 8 bytes each."""

Ask = Callable[[str, bytes, int], bytes]
"""Device, request, size of the answer -> answer; raises SourceError."""


class Channel(Protocol):
    """What carries requests to drivers."""

    def __call__(self, device: str, request: bytes, size: int) -> bytes:
        """The answer's first `size` bytes."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class DeviceStatistics(NamedTuple):
    """What the driver of a device counts, of what is known here; values as the driver counts.

    Errors, and priorities of drivers that tell of all eight, that never counted are 0 as OTHER.
    """

    device: str
    values: Mapping[Meaning, int]


@dataclass(frozen=True, slots=True)
class NicStatistics:
    """Every device whose driver answered.

    Attributes:
        unknown_names: Statistics that are not 0, sound like trouble, and are none of ours.
    """

    devices: tuple[DeviceStatistics, ...]
    rejected: tuple[Rejected, ...]
    unknown_names: frozenset[str] = frozenset()


class _Names(NamedTuple):
    """Names as the driver gave them: the meanings of those that have one, others of trouble."""

    raw: bytes
    known: dict[int, Known]
    unknown: dict[int, str]
    rejected: tuple[Rejected, ...]


class Ethtool:
    """Source of NicStatistics.

    Args:
        devices: Names of the devices to ask.
        open_channel: Opens the way to the drivers.
        monotonic: Seconds of a clock that never goes back.
    """

    name = "ethtool"

    def __init__(
        self,
        devices: Callable[[], list[str]],
        open_channel: Callable[[], Channel] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._devices = devices
        self._open = open_channel or Kernel
        self._names: dict[str, _Names] = {}
        self._silent: set[str] = set()
        self._pauses = Pauses(monotonic)
        self._folding = ZeroSeriesFolding()

    def available(self) -> bool:
        """Whether there is a network device."""
        try:
            return bool(self._devices())
        except SourceError:
            return False  # source netdev counts what is wrong

    def why_not(self) -> str:
        """What is missing."""
        return "no network device besides the loopback"

    def read(self) -> NicStatistics:
        """Ask every device; one that does not answer is left out alone.

        A driver that keeps no statistics is counted once, not at each reading; one that fails is
        left alone for minutes.
        """
        devices = self._devices()
        self._pauses.keep(devices.__contains__)
        self._silent &= set(devices)
        self._names = {name: self._names[name] for name in devices if name in self._names}
        rejected: list[Rejected] = []
        statistics: list[DeviceStatistics] = []
        unknown: set[str] = set()
        channel = self._open()
        try:
            for device in devices:
                if device in self._silent or self._pauses.waits(device):
                    continue
                try:
                    statistics.append(self._read(channel, device, rejected, unknown))
                    self._pauses.answered(device)
                except SourceError as error:
                    if error.reason == "unsupported":
                        self._silent.add(device)
                    elif error.reason == "io":
                        self._pauses.refused(device)
                    rejected.append(Rejected.of(error))
        finally:
            channel.close()
        return NicStatistics(tuple(statistics), tuple(rejected), frozenset(unknown))

    def _read(
        self, ask: Ask, device: str, rejected: list[Rejected], unknown: set[str]
    ) -> DeviceStatistics:
        for _ in range(2):  # queues may come or go between the two requests
            count = _count(ask, device)
            raw = _table(ask, device, STRINGS_HEAD.pack(GSTRINGS, STATISTICS, count), count, 32)
            values = _table(ask, device, STATS_HEAD.pack(GSTATS, count), count, 8)
            if raw is not None and values is not None:
                break
        else:
            raise SourceError("changing", f"ethtool on {device}: the statistics change each time")
        names = self._names.get(device)
        # Compared as a whole, not by number: PFC that moves to another priority renames in place.
        if names is None or names.raw != raw:
            names = self._names[device] = _understood(device, raw)
        rejected += names.rejected
        numbers = struct.unpack(f"={count}Q", values)
        unknown.update(name for index, name in names.unknown.items() if numbers[index])
        counts: dict[Meaning, int] = {}
        summed: dict[Meaning, int] = {}
        refused = {
            meaning for index, (meaning, _) in names.known.items() if numbers[index] == NO_COUNT
        }
        if refused:
            message = f"ethtool on {device}: {len(refused)} statistics of 2^64-1, which is no count"
            rejected.append(Rejected(IMPLAUSIBLE, message))
        for index, (meaning, part) in names.known.items():
            if meaning in refused:  # with a part, the sum is unknown too
                continue
            if meaning.what is What.PCI_STALL_PERCENT and numbers[index] > 100:
                message = f"ethtool on {device}: a PCIe stall of {numbers[index]} percent"
                rejected.append(Rejected("content", message))
                continue
            into = summed if part else counts
            into[meaning] = into.get(meaning, 0) + numbers[index]
        return DeviceStatistics(device, self._rare_together(device, summed | counts))

    def _rare_together(self, device: str, counts: Mapping[Meaning, int]) -> dict[Meaning, int]:
        # mlx5 has the priorities that have PFC, others all eight.
        every = (
            len({meaning.of for meaning in counts if meaning.what is What.PAUSE} - {GLOBAL})
            == PRIORITIES
        )

        def alone(meaning: Meaning) -> bool:
            return is_alone(meaning) or (meaning.what is not What.ERROR and not every)

        return self._folding.fold(device, counts, alone, lambda one: one._replace(of=OTHER))


def _count(ask: Ask, device: str) -> int:
    """How many statistics the driver has."""
    answer = ask(device, SET_INFO.pack(GSSET_INFO, 0, 1 << STATISTICS, 0), SET_INFO.size)
    _, _, mask, count = SET_INFO.unpack(answer)
    if not mask & 1 << STATISTICS or count == 0:
        raise SourceError("unsupported", f"ethtool on {device}: its driver keeps no statistics")
    if count > MAX_STATISTICS:
        message = f"ethtool on {device}: {count} statistics; at most {MAX_STATISTICS} are read"
        raise SourceError("too_many", message)
    return int(count)


def _table(ask: Ask, device: str, head: bytes, count: int, width: int) -> bytes | None:
    """The rows that follow the head; None if there are not `count` of them any more."""
    answer = ask(device, head, len(head) + count * width)
    (told,) = struct.unpack_from("=I", answer, len(head) - 4)
    return answer[len(head) :] if told == count else None


def _understood(device: str, raw: bytes) -> _Names:
    understood: dict[int, Known] = {}
    unknown: dict[int, str] = {}
    seen: set[bytes] = set()
    bad = 0
    for index in range(len(raw) // NAME_BYTES):
        name = raw[index * NAME_BYTES : (index + 1) * NAME_BYTES].split(b"\0")[0]
        if not name.isascii():
            bad += 1
        elif name not in seen:
            text = name.decode("ascii")
            if (meaning := known(text)) is not None:
                understood[index] = meaning
            elif TROUBLE.search(text):
                unknown[index] = text
        seen.add(name)
    paused = {
        meaning.direction
        for meaning, _ in understood.values()
        if meaning.what is What.PAUSE and meaning.of.isdigit()
    }
    understood = {
        index: meaning
        for index, meaning in understood.items()
        if meaning.meaning.of != ANY or meaning.meaning.direction not in paused
    }
    rejected = (Rejected("content", f"ethtool on {device}: {bad} names are not ASCII"),)
    return _Names(raw, understood, unknown, rejected if bad else ())


SIOCETHTOOL = 0x8946
ROOM = 16 << 20
"""Bytes for an answer. The kernel writes as many statistics as the driver has then, not as many as
were asked for (net/ethtool/ioctl.c), so that the room is far beyond any driver's; of the mapping,
only pages that were written to take memory."""
_IFREQ = struct.Struct("16sP16x")
"""struct ifreq: name of the device, pointer to the request; 40 bytes (linux/if.h)."""
_NAME_BYTES = 15
_REASONS = {
    errno.ENODEV: "missing",
    errno.EPERM: "permission",
    errno.EACCES: "permission",
    errno.EOPNOTSUPP: "unsupported",
    errno.EBUSY: "busy",
}


class Kernel:
    """Asks the drivers of this network namespace.

    Raises:
        SourceError: There is no descriptor or no memory left for it.
    """

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._room = mmap.mmap(-1, ROOM)
        except OSError as error:
            raise SourceError("io", f"no way to ask drivers: {error.strerror}") from error
        self._first = ctypes.c_char.from_buffer(self._room)

    def __call__(self, device: str, request: bytes, size: int) -> bytes:
        """The first `size` bytes of what the driver made of the request.

        Raises:
            SourceError: The device is gone, or the driver refuses.
        """
        name = device.encode()
        if not 0 < len(name) <= _NAME_BYTES or size > ROOM:
            raise SourceError("content", f"{device[:80]!r} is no device's name")
        self._room[: len(request)] = request
        try:
            fcntl.ioctl(self._socket, SIOCETHTOOL, _IFREQ.pack(name, ctypes.addressof(self._first)))
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, "io")
            raise SourceError(reason, f"ethtool on {device}: {error.strerror}") from error
        return self._room[:size]

    def close(self) -> None:
        """Close the socket and give the memory back."""
        self._socket.close()
        del self._first
        self._room.close()


# All statistics of a device as its driver names them: what `ethtool -S` prints.


def statistics(ask: Ask, device: str) -> list[tuple[str, int]]:
    """Name and value of each statistic, in the driver's order.

    Raises:
        SourceError: The device is gone, its driver keeps none, or they change meanwhile.
    """
    answer = ask(device, SET_INFO.pack(GSSET_INFO, 0, 1 << STATISTICS, 0), SET_INFO.size)
    _, _, mask, count = SET_INFO.unpack(answer)
    if not mask & 1 << STATISTICS or not 0 < count <= MAX_STATISTICS:
        raise SourceError("unsupported", f"ethtool on {device}: its driver keeps no statistics")
    head = STRINGS_HEAD.pack(GSTRINGS, STATISTICS, count)
    names = ask(device, head, len(head) + count * NAME_BYTES)
    head = STATS_HEAD.pack(GSTATS, count)
    values = ask(device, head, len(head) + count * 8)
    counts = STRINGS_HEAD.unpack_from(names)[2], STATS_HEAD.unpack_from(values)[1]
    if counts != (count, count):
        raise SourceError("changing", f"ethtool on {device}: the statistics change meanwhile")
    numbers = struct.unpack_from(f"={count}Q", values, STATS_HEAD.size)
    starts = range(STRINGS_HEAD.size, STRINGS_HEAD.size + count * NAME_BYTES, NAME_BYTES)
    words = (names[at : at + NAME_BYTES].split(b"\0")[0] for at in starts)
    return list(zip((word.decode("ascii", "replace") for word in words), numbers, strict=True))
