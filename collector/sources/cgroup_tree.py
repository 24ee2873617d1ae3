"""How long CPU quotas held back all groups of this node, from the cgroup tree (version 1 and 2)."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from collector.files import read_lines
from collector.reading import Rejected, SourceError

LIMIT = 64 * 1024
MAX_GROUPS = 4096
_THROTTLED = re.compile(r"throttled_(time|usec) ([0-9]{1,19})", re.ASCII)
_SECONDS = {"time": 1e-9, "usec": 1e-6}


@dataclass(frozen=True, slots=True)
class NodeThrottled:
    """Seconds summed over groups; a group counts its own throttling only, not that of its parts.

    What groups counted before they were removed stays in the sum.
    """

    seconds: float
    rejected: tuple[Rejected, ...]


class CgroupTree:
    """Source of NodeThrottled."""

    name = "cgroup_tree"

    def __init__(self, sys: Path) -> None:
        self._sys = sys / "fs" / "cgroup"
        self._raw: dict[Path, float] = {}
        self._seconds = 0.0

    def available(self) -> bool:
        """Whether the cpu controller is mounted."""
        return self._root() is not None

    def why_not(self) -> str:
        """What is missing."""
        return f"no cpu controller under {self._sys}"

    def read(self) -> NodeThrottled:
        """Walk the tree; a group without a quota file is no error.

        Raises:
            SourceError: The controller has gone.
        """
        root = self._root()
        if root is None:
            raise SourceError("missing", self.why_not())
        fresh: dict[Path, float] = {}
        unread: set[Path] = set()
        rejected: list[Rejected] = []
        for number, group in enumerate(_groups(root)):
            if number == MAX_GROUPS:
                rejected.append(Rejected("too_many", f"{MAX_GROUPS} groups are read"))
                unread |= self._raw.keys() - fresh.keys()
                break
            try:
                seconds = _throttled(group)
            except SourceError as error:
                if error.reason != "missing":
                    rejected.append(Rejected.of(error))
                    unread.add(group)
                continue
            if seconds is not None:
                fresh[group] = seconds
        for group, seconds in fresh.items():
            before = self._raw.get(group, 0.0)
            # Less than before: a new group of the same name.
            self._seconds += seconds - before if seconds >= before else seconds
        # What did not answer this time must not be counted as new the next time.
        self._raw = {group: self._raw[group] for group in unread & self._raw.keys()} | fresh
        return NodeThrottled(self._seconds, tuple(rejected))

    def _root(self) -> Path | None:
        """Folder of the cpu controller: version 1 where it is mounted, else version 2."""
        for name in ("cpu", "cpu,cpuacct", "cpuacct,cpu"):
            if (self._sys / name).is_dir():
                return self._sys / name
        return self._sys if (self._sys / "cgroup.controllers").exists() else None


def _groups(folder: Path) -> Iterator[Path]:
    """The folder and all below it; links are not followed."""
    waiting = [folder]
    while waiting:
        group = waiting.pop()
        yield group
        try:
            with os.scandir(group) as entries:
                below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # removed since it was listed
        waiting += (Path(path) for path in sorted(below, reverse=True))


def _throttled(group: Path) -> float | None:
    for line in read_lines(group / "cpu.stat", LIMIT):
        if match := _THROTTLED.fullmatch(line):
            return int(match[2]) * _SECONDS[match[1]]
    return None
