"""How often and how long heat held the processors back (kernel therm_throt.c, Intel only)."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.files.opening import read_lines
from lockstep.collector.readings.source import Rejected, SourceError

LIMIT = 64
MAX_PROCESSORS = 4096
LEVELS = ("core", "package")
FILES = ("throttle_count", "throttle_total_time_ms")
_PROCESSOR = re.compile(r"cpu([0-9]{1,5})", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)

Place = tuple[str, ...]
"""A level, and the package, or the package and the core, that its counts are of."""


@dataclass(frozen=True, slots=True)
class ThermalThrottle:
    """Summed over cores or packages since boot, by LEVELS.

    Attributes:
        seconds: Empty before Linux 5.5, which counts no time.
    """

    counts: dict[str, int]
    seconds: dict[str, float]
    rejected: tuple[Rejected, ...]


class ThermalThrottles:
    """Source of ThermalThrottle.

    Every processor has its own counts of what befell its core and its package: of those that share
    one, the highest counts. What a processor had counted before it went offline stays in the sum.
    """

    name = "thermal_throttle"

    def __init__(self, sys: Path) -> None:
        self._folder = sys / "devices/system/cpu"
        self._places: dict[str, tuple[str, str]] = {}
        self._before: dict[tuple[Place, str], int] = {}
        self._totals: dict[tuple[str, str], int] = {}

    def available(self) -> bool:
        """Whether the first processor counts."""
        return (self._folder / "cpu0/thermal_throttle").is_dir()

    def why_not(self) -> str:
        """What is missing."""
        return f"no processor under {self._folder} counts its thermal throttling"

    def read(self) -> ThermalThrottle:
        """Read all processors; one that does not answer is left out alone.

        Raises:
            SourceError: They cannot be listed.
        """
        fresh: dict[tuple[Place, str], int] = {}
        rejected: list[Rejected] = []
        for processor in self._processors():
            try:
                for (place, file), count in self._counts(processor).items():
                    fresh[place, file] = max(count, fresh.get((place, file), 0))
            except SourceError as error:
                if error.reason != "missing":  # it has just gone offline
                    rejected.append(Rejected.of(error))
        for (place, file), count in fresh.items():
            before = self._before.get((place, file), 0)
            # Less than before: its processors were offline, and began anew.
            more = count - before if count >= before else count
            total = (place[0], file)
            self._totals[total] = self._totals.get(total, 0) + more
        self._before |= fresh
        counts, times = FILES
        return ThermalThrottle(
            {level: self._totals[level, counts] for level in LEVELS
             if (level, counts) in self._totals},
            {level: self._totals[level, times] / 1e3 for level in LEVELS
             if (level, times) in self._totals},
            tuple(rejected),
        )  # fmt: skip

    def _processors(self) -> list[str]:
        try:
            names = os.listdir(self._folder)
        except OSError as error:
            raise SourceError("missing", f"{self._folder}: {error.strerror}") from error
        numbered = [
            (int(match[1]), name) for name in names if (match := _PROCESSOR.fullmatch(name))
        ]
        return [name for _, name in sorted(numbered)[:MAX_PROCESSORS]]

    def _counts(self, processor: str) -> dict[tuple[Place, str], int]:
        folder = self._folder / processor
        package, core = self._place(processor)
        counts: dict[tuple[Place, str], int] = {}
        for level, place in (("core", (package, core)), ("package", (package,))):
            for file in FILES:
                try:
                    count = _number(folder / "thermal_throttle" / f"{level}_{file}")
                except SourceError as error:
                    if error.reason != "missing":
                        raise
                    continue  # a kernel without times, or a processor without packages
                counts[(level, *place), file] = count
        return counts

    def _place(self, processor: str) -> tuple[str, str]:
        """Package and core, which do not change while the machine runs."""
        if processor not in self._places:
            topology = self._folder / processor / "topology"
            package, core = (
                str(_number(topology / name)) for name in ("physical_package_id", "core_id")
            )
            self._places[processor] = (package, core)
        return self._places[processor]


def _number(path: Path) -> int:
    text = next(iter(read_lines(path, LIMIT)), "")
    if not _NUMBER.fullmatch(text):
        raise SourceError("content", f"{path} is {text[:20]!r}, no count")
    return int(text)
