"""The temperature sensors of chips, from /sys/class/hwmon (kernel Documentation/hwmon/sysfs)."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

_CHIP = re.compile(r"hwmon([0-9]{1,4})", re.ASCII)
_INPUT = re.compile(r"temp([0-9]{1,3})_input", re.ASCII)
_OF_A_ZONE = "/thermal_zone"
"""In the real path of a chip that shows a thermal zone once more (thermal_hwmon.c)."""


def sensors(folder: Path) -> Iterator[tuple[str, Path, Path, Path]]:
    """(place, file of the value, of the chip's name, of the sensor's label), chip by chip.

    Chips that show a thermal zone are left out: the zone is told already.
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
    found = [(int(match[1]), name) for name in names if (match := pattern.fullmatch(name))]
    return [folder / name for _, name in sorted(found)]
