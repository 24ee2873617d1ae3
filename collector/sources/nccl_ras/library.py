"""Which NCCL a process has loaded: the sentence that stands in the library, found without asking.

RAS begins its report with "NCCL version 2.28.9+cuda12.9 compiled with CUDA 12.9" (src/ras/
client_support.cc, 2.24.3 to 2.30.7), so every library that has RAS holds these words.
"""

import os
import re
import threading
from pathlib import Path

from lockstep.collector.files import opened, read_bytes
from lockstep.collector.reading import SourceError
from lockstep.collector.sources.nccl_ras.status import Version, version_of

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
                told = os.fstat(descriptor)
                key = (told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns)
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
            return version_of(match[1].decode()) or "its library tells no version"
        before, left = chunk[-_OVERLAP:], left - len(chunk)
    return "its library tells no version, as of NCCL before 2.24"
