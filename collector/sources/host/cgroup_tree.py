"""How long CPU quotas held back all groups of this node, from the cgroup tree (version 1 and 2)."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lockstep.collector.files.opening import read_bytes
from lockstep.collector.readings.source import Rejected, SourceError

LIMIT = 64 * 1024
MAX_GROUPS = 4096
_STAT = re.compile(rb"(?:[a-z0-9_.]+ [0-9]+\n)*")
_THROTTLED = re.compile(rb"^throttled_(time|usec) ([0-9]{1,19})\n", re.MULTILINE)
_SECONDS = {b"time": 1e-9, b"usec": 1e-6}


@dataclass(frozen=True, slots=True)
class NodeThrottled:
    """Seconds summed over groups since the first reading; none counts the throttling of its parts.

    What groups counted before they were removed stays in the sum. What they had counted before the
    first reading is not in it: a restart would count that again, as throttling of just now.
    """

    seconds: float
    rejected: tuple[Rejected, ...]


class CgroupTree:
    """Source of NodeThrottled."""

    name = "cgroup_tree"

    def __init__(self, sys: Path) -> None:
        self._sys = sys / "fs" / "cgroup"
        self._raw: dict[str, float] = {}
        self._unknown: set[str] = set()  # groups that were there and could not be read
        self._saw_all = False
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
        fresh: dict[str, float] = {}
        unread: set[str] = set()
        rejected: list[Rejected] = []
        unlisted: list[Rejected] = []
        groups = list(islice(_groups(str(root), unlisted), MAX_GROUPS + 1))
        if len(groups) > MAX_GROUPS:
            unlisted.append(Rejected("too_many", f"{MAX_GROUPS} groups are read"))
        for group in groups[:MAX_GROUPS]:
            try:
                seconds = _throttled(group)
            except SourceError as error:
                if error.reason != "missing":
                    rejected.append(Rejected.of(error))
                    unread.add(group)
                continue
            if seconds is None:
                unread |= {group} & self._raw.keys()
            else:
                fresh[group] = seconds
        self._seconds += sum(self._more(group, seconds) for group, seconds in fresh.items())
        self._saw_all = not unlisted
        if unlisted:
            unread |= self._raw.keys() - fresh.keys()
        # What did not answer this time must not be counted as new the next time.
        self._raw = {group: self._raw[group] for group in unread & self._raw.keys()} | fresh
        self._unknown = unread - self._raw.keys()
        return NodeThrottled(self._seconds, (*rejected, *unlisted))

    def _more(self, group: str, seconds: float) -> float:
        """What a group counted since the last reading."""
        before = self._raw.get(group)
        if before is None:
            return seconds if self._saw_all and group not in self._unknown else 0.0
        # Less than before: a new group of the same name.
        return seconds - before if seconds >= before else seconds

    def _root(self) -> Path | None:
        """Folder of the cpu controller: version 1 where it is mounted, else version 2."""
        for name in ("cpu", "cpu,cpuacct", "cpuacct,cpu"):
            if (self._sys / name).is_dir():
                return self._sys / name
        return self._sys if (self._sys / "cgroup.controllers").exists() else None


def _groups(folder: str, unlisted: list[Rejected]) -> Iterator[str]:
    """The folder and all below it; links are not followed, and what cannot be listed is named."""
    waiting = [folder]
    while waiting:
        group = waiting.pop()
        yield group
        try:
            with os.scandir(group) as entries:
                below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            continue  # removed since it was listed
        except OSError as error:
            unlisted.append(Rejected("io", f"{group}: {error.strerror}"))
            continue
        waiting += sorted(below, reverse=True)


def _throttled(group: str) -> float | None:
    path = Path(group, "cpu.stat")
    text = read_bytes(path, LIMIT)
    if _STAT.fullmatch(text) is None:
        raise SourceError("content", f"{path} is not lines of a name and a number")
    match = _THROTTLED.search(text)
    return None if match is None else int(match[2]) * _SECONDS[match[1]]
