"""How warm the host is: thermal zones (kernel Documentation/driver-api/thermal), chips' sensors."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.files.opening import read_lines
from lockstep.collector.readings.source import Rejected, SourceError

LIMIT = 4096
MAX_ZONES = 64
MAX_SENSORS = 64
MAX_LOOKED_AT = 1024
_ZONE = re.compile(r"thermal_zone([0-9]{1,4})", re.ASCII)
_MILLI = re.compile(r"-?[0-9]{1,7}", re.ASCII)
_ABSOLUTE_ZERO = -273.15
_CORE = re.compile(r"Core [0-9]+", re.ASCII)
"""Sensors that are left out: a large host has hundreds, and its packages tell the same."""


class Zone(NamedTuple):
    """A thermal zone or a sensor.

    Attributes:
        place: The zone's number, or the sensor's chip and file, as `hwmon2/temp1`.
        kind: What is measured, as `x86_pkg_temp`, or chip and label, as `nvme Composite`.
        celsius: Degrees.
    """

    place: str
    kind: str
    celsius: float


@dataclass(frozen=True, slots=True)
class HostTemperature:
    """Every zone and sensor that answered."""

    zones: tuple[Zone, ...]
    rejected: tuple[Rejected, ...]


class ThermalZones:
    """Source of HostTemperature."""

    name = "thermal"

    def __init__(self, sys: Path) -> None:
        self._zones_of, self._chips_of = sys / "class" / "thermal", sys / "class" / "hwmon"

    def available(self) -> bool:
        """Whether there is a thermal zone or a sensor."""
        return bool(self._zones()) or next(sensors(self._chips_of), None) is not None

    def why_not(self) -> str:
        """What is missing."""
        return (
            f"no thermal zone under {self._zones_of} and no sensor under {self._chips_of}, as in "
            "most virtual machines"
        )

    def read(self) -> HostTemperature:
        """Read every zone and sensor; one that does not answer is left out alone."""
        zones: list[Zone] = []
        rejected: list[Rejected] = []
        for number, folder in self._zones()[:MAX_ZONES]:
            try:
                kind = _word(folder / "type")
                zones.append(Zone(str(number), kind, _celsius(folder / "temp")))
            except SourceError as error:
                rejected.append(Rejected.of(error))
        count = 0
        for place, value, chip, label in islice(sensors(self._chips_of), MAX_LOOKED_AT):
            try:
                sensor = _kind(chip, label)
                if sensor is not None:
                    count += 1
                    zones.append(Zone(place, sensor, _celsius(value)))
            except SourceError as error:
                rejected.append(Rejected.of(error))
            if count == MAX_SENSORS:
                break
        return HostTemperature(tuple(zones), tuple(rejected))

    def _zones(self) -> list[tuple[int, Path]]:
        try:
            entries = list(self._zones_of.iterdir())
        except OSError:
            return []
        zones = [(match, path) for path in entries if (match := _ZONE.fullmatch(path.name))]
        return sorted((int(match[1]), path) for match, path in zones)


def _kind(chip: Path, label: Path) -> str | None:
    """Chip and label, which most sensors of one value lack; None for a core's."""
    name = _word(chip)
    try:
        own = _word(label)
    except SourceError as error:
        if error.reason != "missing":
            raise
        return name
    return None if _CORE.fullmatch(own) else f"{name} {own}"


def _word(path: Path) -> str:
    word = next(iter(read_lines(path, LIMIT)), "")
    if not word or not word.isprintable() or len(word) > 64:
        raise SourceError("content", f"{path} holds no name")
    return word


def _celsius(path: Path) -> float:
    text = next(iter(read_lines(path, LIMIT)), "")
    celsius = int(text) / 1e3 if _MILLI.fullmatch(text) else None
    if celsius is None or celsius < _ABSOLUTE_ZERO:
        raise SourceError("content", f"{path} is {text[:20]!r}, no temperature")
    return celsius


_CHIP = re.compile(r"hwmon([0-9]{1,4})", re.ASCII)
_INPUT = re.compile(r"temp([0-9]{1,3})_input", re.ASCII)
_OF_A_ZONE = "/thermal_zone"
"""In the real path of a chip that shows a thermal zone once more (thermal_hwmon.c)."""


def sensors(folder: Path) -> Iterator[tuple[str, Path, Path, Path]]:
    """(place, file of the value, of the chip's name, of the sensor's label), chip by chip.

    Chips that show a thermal zone are left out: the zone is read already.
    """
    for chip in _numbered(folder, _CHIP):
        if _OF_A_ZONE in os.path.realpath(chip):
            continue
        for value in _numbered(chip, _INPUT):
            sensor = value.name.removesuffix("_input")
            yield f"{chip.name}/{sensor}", value, chip / "name", chip / f"{sensor}_label"


def _numbered(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        names = os.listdir(folder)
    except OSError:  # no such class, or a chip that has just gone
        return []
    numbered = [(int(match[1]), name) for name in names if (match := pattern.fullmatch(name))]
    return [folder / name for _, name in sorted(numbered)]
