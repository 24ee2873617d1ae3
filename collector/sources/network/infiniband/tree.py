"""The tree /sys/class/infiniband: which ports there are, and how its small files are read."""

import errno
import os
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from lockstep.collector.files.opening import MAX_ENTRIES
from lockstep.collector.readings.source import Rejected, SourceError
from lockstep.collector.sources.network.infiniband.adapter_files import Files, PausedError

MAX_PORTS = 64
ETHERNET, INFINIBAND = "Ethernet", "InfiniBand"
"""Link layers: Ethernet is RoCE. EFA says Unspecified."""
_NOT_KEPT = b"N/A (no PMA)\n"
"""What the kernel prints where a port has no performance counters (drivers/infiniband/core)."""

_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,3}", re.ASCII)
_COUNT = re.compile(rb"[0-9]{1,20}\n+")
_WORD = re.compile(rb"[ -~]{0,128}\n+")
"""Some drivers end a line twice; one without any end was cut."""

P = ParamSpec("P")
T = TypeVar("T")


class Place(NamedTuple):
    """A port and its folder."""

    device: str
    port: str
    folder: str


class Trying:
    """Reads one thing after another; what fails is None and listed."""

    def __init__(self) -> None:
        self.rejected: list[Rejected] = []

    def __call__(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What `read` gives for the arguments, or None."""
        try:
            return read(*args, **kwargs)
        except PausedError:
            return None  # it was listed when it was refused
        except SourceError as error:
            self.rejected.append(Rejected.of(error))
            return None

    def unless_missing(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The same for a file that every port has: without it, the port has gone.

        Raises:
            SourceError: It is missing; said once, and not once for each of the port's files.
        """
        try:
            return read(*args, **kwargs)
        except PausedError:
            return None
        except SourceError as error:
            if error.reason == "missing":
                raise
            self.rejected.append(Rejected.of(error))
            return None


def places(root: Path, trying: Trying) -> list[Place]:
    """All ports, by device and number; at most MAX_PORTS."""
    found: list[Place] = []
    for device in trying(listed, root) or []:
        if not _DEVICE.fullmatch(device):
            trying.rejected.append(Rejected("content", f"{device[:80]!r} is no RDMA device's name"))
            continue
        folder = root / device / "ports"
        ports = [port for port in trying(listed, folder) or [] if _NUMBER.fullmatch(port)]
        found += (Place(device, port, str(folder / port)) for port in sorted(ports, key=int))
    if len(found) > MAX_PORTS:
        trying.rejected.append(
            Rejected("too_many", f"{len(found)} RDMA ports; the first {MAX_PORTS} are read")
        )
    return found[:MAX_PORTS]


def listed(folder: Path | str) -> list[str]:
    """Sorted names in a folder.

    Raises:
        SourceError: It cannot be listed.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, MAX_ENTRIES))
    except OSError as error:
        gone = error.errno in (errno.ENOENT, errno.ENODEV, errno.ENOTDIR)
        denied = error.errno in (errno.EACCES, errno.EPERM)
        reason = "missing" if gone else "permission" if denied else "io"
        raise SourceError(reason, f"{folder}: {error.strerror}") from error


def present(folder: str) -> frozenset[str]:
    """Counters that the port has, as `counters/NAME`.

    Raises:
        SourceError: A folder that is there cannot be listed.
    """
    names: set[str] = set()
    for group in ("counters_ext", "counters", "hw_counters"):
        try:
            names.update(f"{group}/{name}" for name in listed(f"{folder}/{group}"))
        except SourceError as error:
            if error.reason != "missing":
                raise
    return frozenset(names)


def count(files: Files, path: str) -> int | None:
    """A counter; None where the port does not keep it.

    Raises:
        SourceError: It cannot be read or is not a count of 64 bits.
    """
    text = files.read(path)
    if text == _NOT_KEPT:
        return None
    if _COUNT.fullmatch(text) is None or int(text) >= 1 << 64:
        raise SourceError("content", f"{path} is {text[:24]!r}, no count")
    return int(text)


def word(files: Files, path: str) -> str:
    """A line of printable text.

    Raises:
        SourceError: It cannot be read, is longer than a name, or is not printable.
    """
    text = files.read(path)
    if _WORD.fullmatch(text) is None:
        raise SourceError("content", f"{path} is {text[:24]!r}, no line of text")
    return text.decode("ascii").strip()
