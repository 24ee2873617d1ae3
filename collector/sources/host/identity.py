"""Which machine this is: host name, kernel and boot, from procfs."""

import re
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.files.opening import read_lines
from lockstep.collector.readings.source import SourceError

LIMIT = 4096
STAT_LIMIT = 1 << 20
_BOOT_TIME = re.compile(r"btime ([0-9]{1,12})", re.ASCII)


@dataclass(frozen=True, slots=True)
class MachineIdentity:
    """Names of the machine; `emulated` if several nodes share it and `hostname` was given.

    `boot_time` is unix seconds, or None where the kernel does not tell.
    """

    hostname: str
    kernel: str
    boot_id: str
    emulated: bool
    boot_time: int | None


class Identity:
    """Source of MachineIdentity.

    Args:
        proc: Where procfs is mounted.
        node: Name of the emulated node; None on a real one.
        name: Name of the real node where its host name is not seen, as in a pod.
    """

    name = "identity"

    def __init__(self, proc: Path, node: str | None, name: str | None = None) -> None:
        self._kernel = proc / "sys" / "kernel"
        self._stat = proc / "stat"
        self._node, self._name = node, name

    def available(self) -> bool:
        """Whether the kernel's names are there."""
        return self._kernel.is_dir()

    def read(self) -> MachineIdentity:
        """Read the names.

        Raises:
            SourceError: One is missing or empty.
        """
        return MachineIdentity(
            hostname=self._node or self._name or self._line("hostname"),
            kernel=self._line("osrelease"),
            boot_id=self._line("random/boot_id"),
            emulated=self._node is not None,
            boot_time=self._boot_time(),
        )

    def _boot_time(self) -> int | None:
        try:
            lines = read_lines(self._stat, STAT_LIMIT)
        except SourceError:
            return None  # the names stand; source procfs counts what is wrong with this file
        matches = [match for line in lines if (match := _BOOT_TIME.fullmatch(line))]
        return int(matches[0][1]) if matches else None

    def _line(self, name: str) -> str:
        path = self._kernel / name
        lines = read_lines(path, LIMIT)
        if not lines or not lines[0].strip().isprintable() or not lines[0].strip():
            raise SourceError("content", f"{path} holds no name")
        return lines[0].strip()
