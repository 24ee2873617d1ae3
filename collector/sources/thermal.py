"""How warm the host is, from /sys/class/thermal (kernel Documentation/driver-api/thermal)."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from collector.files import read_lines
from collector.reading import Rejected, SourceError

LIMIT = 4096
MAX_ZONES = 64
_ZONE = re.compile(r"thermal_zone([0-9]{1,4})", re.ASCII)
_MILLI = re.compile(r"-?[0-9]{1,7}", re.ASCII)
_ABSOLUTE_ZERO = -273.15


class Zone(NamedTuple):
    """A thermal zone: its number, what it measures (as x86_pkg_temp), degrees Celsius."""

    number: int
    kind: str
    celsius: float


@dataclass(frozen=True, slots=True)
class HostTemperature:
    """Every zone that answered."""

    zones: tuple[Zone, ...]
    rejected: tuple[Rejected, ...]


class ThermalZones:
    """Source of HostTemperature."""

    name = "thermal"

    def __init__(self, sys: Path) -> None:
        self._folder = sys / "class" / "thermal"

    def available(self) -> bool:
        """Whether there is a thermal zone."""
        return bool(self._zones())

    def why_not(self) -> str:
        """What is missing."""
        return f"no thermal zone under {self._folder}, as in most virtual machines"

    def read(self) -> HostTemperature:
        """Read every zone; one that does not answer is left out alone."""
        zones: list[Zone] = []
        rejected: list[Rejected] = []
        for number, folder in self._zones()[:MAX_ZONES]:
            try:
                zones.append(_zone(number, folder))
            except SourceError as error:
                rejected.append(Rejected.of(error))
        return HostTemperature(tuple(zones), tuple(rejected))

    def _zones(self) -> list[tuple[int, Path]]:
        try:
            entries = list(self._folder.iterdir())
        except OSError:
            return []
        found = [(match, path) for path in entries if (match := _ZONE.fullmatch(path.name))]
        return sorted((int(match[1]), path) for match, path in found)


def _zone(number: int, folder: Path) -> Zone:
    kind, text = (next(iter(read_lines(folder / name, LIMIT)), "") for name in ("type", "temp"))
    celsius = int(text) / 1e3 if _MILLI.fullmatch(text) else None
    if celsius is None or celsius < _ABSOLUTE_ZERO:
        raise SourceError("content", f"{folder}/temp is {text[:20]!r}, no temperature")
    if not kind or not kind.isprintable() or len(kind) > 64:
        raise SourceError("content", f"{folder}/type holds no name")
    return Zone(number, kind, celsius)
