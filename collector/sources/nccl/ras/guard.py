"""Whether RAS may be asked: questions have crashed jobs of some versions of NCCL.

A question goes through all ranks of a job and reads their communicators. While those are made, and
in some versions when ranks are missing, the answering thread has read what was not there yet, which
ends the training process. So nothing is asked before every rank of this node has made a step, and
nothing of a version that is known for it.
"""

import os
import re
import threading
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.files.opening import opened, read_bytes
from lockstep.collector.readings.source import RankProcess, SourceError
from lockstep.collector.sources.nccl.ras.status import Version, version_of


class Polling(StrEnum):
    """The setting `nccl.ras_polling`."""

    GUARDED = "guarded"
    ALWAYS = "always"
    NEVER = "never"


SETTING = "nccl.ras_polling"


class Defect(NamedTuple):
    """Versions that asking has crashed.

    Attributes:
        first: The first one of which it is reported.
        fixed: The first one that is not, and all before `first`.
        issue: Of github.com/NVIDIA/nccl.
        said: What is said there, word for word.
        until: Why `fixed` is that.
    """

    first: Version
    fixed: Version
    issue: int
    said: str
    until: str

    @property
    def source(self) -> str:
        """Where one can read it."""
        return f"https://github.com/NVIDIA/nccl/issues/{self.issue}"


DEFECTS: tuple[Defect, ...] = (
    Defect(
        (2, 26, 2), (2, 27, 3), 1669,
        "during NCCL initialization, running the RAS command can cause NCCL to crash",
        "release notes of 2.27.3: Fix a race condition leading to a crash when generating a RAS"
        " report during communicator initialization (Issues #1669, #1718)",
    ),
    Defect(
        (2, 26, 5), (2, 27, 3), 1718,
        "the repro polls in a tight loop to make the issue more likely but its possible to bump"
        " into this often enough even at a 5 second poll interval",
        "as issue 1669",
    ),
    Defect(
        (2, 27, 3), (2, 28, 7), 1762,
        "can potentially cause job crash with PyTorch 2.8.0 + NCCL 2.27.3., looks like memory"
        " corruption. We see very high chance to reproduce this with 128 GPUS jobs",
        "the text report is mended in 2.29.2 (in the issue: the fix was included in NCCL 2.29.2"
        " release); from 2.28.7 on we ask for JSON, which another function writes, rightly",
    ),
    Defect(
        (2, 29, 7), (2, 30, 0), 2346,
        "Only reproduces on 256 GPUs [...] The theory is that the null `status` values appear when"
        " a communicator is being initialized",
        "open; of 2.30 nothing is reported",
    ),
)  # fmt: skip
"""Looked up on 2026-11-23. Of 2.27.7 it is reported that RAS crashes jobs that nobody asks, too
(issue 1996): only NCCL_RAS_ENABLE=0 helps there."""


def defects(version: Version) -> tuple[Defect, ...]:
    """What is known of a version."""
    return tuple(defect for defect in DEFECTS if defect.first <= version < defect.fixed)


def why_not(
    polling: Polling,
    ranks: Iterable[RankProcess],
    stepped: Collection[tuple[str, int]],
    versions: Mapping[tuple[str, int], Version | str],
) -> str | None:
    """Why RAS is not asked now, in words; None = it may be.

    Args:
        polling: The setting.
        ranks: Those of this node that the question may reach.
        stepped: (run, rank) of those that have made a step since they started.
        versions: The NCCL of each, or why it is not known.
    """
    if polling is Polling.ALWAYS:
        return None
    if polling is Polling.NEVER:
        return f"not asked, as {SETTING} is never"
    ranks = tuple(ranks)
    if not ranks:
        return _unless("no rank of this node reports its steps")
    for rank in ranks:
        if (rank.run, rank.rank) not in stepped:
            return (
                f"not asked yet: rank {rank.rank} of {rank.run} has not made its first step, and a"
                " question has crashed ranks that were starting"
            )
    for rank in ranks:
        version = versions.get((rank.run, rank.rank), "its process is not seen here")
        if isinstance(version, str):
            return _unless(f"the NCCL of rank {rank.rank} of {rank.run} is unknown: {version}")
        if bad := defects(version):
            said = ".".join(map(str, version))
            issues = ", ".join(str(defect.issue) for defect in bad)
            return _unless(f"NCCL {said} has crashed when asked (NVIDIA/nccl issue {issues})")
    return None


def _unless(words: str) -> str:
    return f'not asked: {words}; {SETTING} = "always" asks all the same'


# The version of NCCL that a process has loaded, found in the library file.
#
# RAS begins its report with "NCCL version 2.28.9+cuda12.9 compiled with CUDA 12.9" (src/ras/
# client_support.cc, 2.24.3 to 2.30.7), so every library that has RAS holds these words.

MAX_MAPS = 8 << 20
"""Of /proc/<pid>/maps; a training process has 1 MB."""
MAX_LIBRARY = 1 << 30
"""NCCL has 200 to 500 MB, nearly all of it code for GPUs."""
_CHUNK = 4 << 20
_OVERLAP = 256
_NAME = re.compile(r"libnccl\.so[.\d]*(?: \(deleted\))?", re.ASCII)
_WORDS = re.compile(rb"NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})[^\n\0]{0,60} compiled with CUDA")


class Libraries:
    """Versions of NCCL by process; a library is searched once, however many ranks have it."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._lock = threading.Lock()
        self._known: dict[tuple[int, int, int, int], Version | str] = {}

    def version(self, pid: int) -> Version | str:
        """The NCCL that a process has loaded, or why it is not known."""
        try:
            path = self._path(pid)
            if path is None:
                return "it has no libnccl loaded"
            # As the process sees it: in a container its files are others.
            with opened(self._proc / str(pid) / "root" / path.lstrip("/")) as descriptor:
                status = os.fstat(descriptor)
                key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
                with self._lock:
                    if key not in self._known:
                        self._known[key] = _searched(descriptor)
                    return self._known[key]
        except SourceError as error:
            return str(error)

    def _path(self, pid: int) -> str | None:
        text = read_bytes(self._proc / str(pid) / "maps", MAX_MAPS).decode("utf-8", "replace")
        for line in text.splitlines():
            # address perms offset device inode path (proc(5))
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and _NAME.fullmatch(fields[5].rpartition("/")[2]):
                return fields[5].removesuffix(" (deleted)")
        return None


def _searched(descriptor: int) -> Version | str:
    before, left = b"", MAX_LIBRARY
    while left > 0 and (chunk := os.read(descriptor, _CHUNK)):
        if match := _WORDS.search(before + chunk):
            return version_of(match[1].decode()) or "its library reports no version"
        before, left = chunk[-_OVERLAP:], left - len(chunk)
    return "its library reports no version, as of NCCL before 2.24"
