"""The kernel's log, /dev/kmsg: read without waiting, record by record, none twice.

Format: kernel Documentation/ABI/testing/dev-kmsg, `prio,seq,microseconds,flag;text` and lines that
begin with a space and say which device is meant. A FIFO or a file of such records works as well.
"""

import errno
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.contract import kernel_log
from lockstep.collector.formats.kernel_log import LEVEL, MARKS, RECORD, parse, spelled_out, unread
from lockstep.collector.readings.kernel import KernelEvent, KernelEvents
from lockstep.collector.readings.source import Rejected, SourceError

__all__ = ["KernelLog", "Kmsg", "parse", "spelled_out"]

READ_BYTES = 8192
"""The kernel's longest record; of the device a read gives one record, whatever its length."""
TURN_BYTES = 1 << 20
"""Read at once at most: some 10,000 records. What a flood writes beyond it waits in the kernel's
ring, and if that overruns, the lost records are counted."""
READ_COST = 100
"""Bytes that a system call is charged as, so that many short records end a turn too."""
MAX_WAITING = 2048
"""Events that wait to be fetched; with so many, nothing more is read."""
MAX_REJECTED = 100
"""Malformed records that one reading reports."""
NVIDIA = "nvidia"
"""Whose an XID or SXID is that cannot be read."""
UNREAD = (NVIDIA, *kernel_log.DRIVERS)
"""Whose lines are counted when they cannot be read."""

_ABSENT = {
    errno.ENOENT: "is not here; a container has to be given it",
    errno.ENOTDIR: "is not here",
    errno.EACCES: "may not be read; it takes CAP_SYSLOG (or read access to the device)",
    errno.EPERM: "may not be read; it takes CAP_SYSLOG, and a container has to be given it",
    errno.ELOOP: "is a symbolic link, which is not followed; it must be the kernel's device",
}


@dataclass(frozen=True, slots=True)
class KernelLog:
    """How the reading of the log goes; what it told is fetched by `Kmsg.take`.

    Attributes:
        dropped: Records that were overwritten before they were read, since the start.
        unread: Lines since the start that begin like ours and that no pattern reads, by whose
            they are (UNREAD).
    """

    dropped: int
    rejected: tuple[Rejected, ...]
    unread: Mapping[str, int]


class Kmsg:
    """Source of KernelLog, and of the events in it for who fetches them.

    Args:
        path: The device.
        clock: Says when a record was read.
        stamps: The clock that the kernel stamps its records by, in seconds: printk takes the bare
            counter, which CLOCK_MONOTONIC leaves behind by seconds in weeks (it is slewed).
        read: os.read.
    """

    name = "kmsg"

    def __init__(
        self,
        path: Path,
        clock: Clock,
        stamps: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_MONOTONIC_RAW),
        read: Callable[[int, int], bytes] = os.read,
    ) -> None:
        self._path = path
        self._clock, self._stamps = clock, stamps
        self._read = read
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._closed = False
        self._absent = ""
        self._broken: SourceError | None = None
        self._rest = b""
        self._last: int | None = None
        self._overrun = False
        self._drained = 0.0
        self._dropped = 0
        self._waiting: list[KernelEvent] = []
        self._rejected: list[Rejected] = []
        self._unread: Counter[str] = Counter(dict.fromkeys(UNREAD, 0))

    def available(self) -> bool:
        """Whether the log is there and may be read; also if what is there is no log."""
        with self._lock:
            self._open()
            return not self._absent

    def why_not(self) -> str:
        """What is missing."""
        return self._absent

    def resume(self, sequence: int) -> None:
        """Go on behind this record, which an earlier process has read; call before reading."""
        with self._lock:
            self._last = sequence

    def take(self) -> KernelEvents:
        """What was heard since the last call.

        Reads the log itself, so that an event waits for one period and not for two. What fails
        on the way is reported by `read`.
        """
        with self._lock:
            self._open()
            try:
                self._turn()
            except SourceError as error:
                self._reject(error.reason, str(error))
            events, self._waiting = tuple(self._waiting), []
            return KernelEvents(events, self._last)

    def read(self) -> KernelLog:
        """Read what is new.

        Raises:
            SourceError: What is there is no log, or it cannot be read any more.
        """
        with self._lock:
            if self._broken is not None:
                raise self._broken
            self._turn()
            rejected, self._rejected = tuple(self._rejected), []
            return KernelLog(self._dropped, rejected, dict(self._unread))

    def close(self) -> None:
        """Close the log for good; who still asks for events gets none."""
        with self._lock:
            self._closed = True
            self._shut()

    def _open(self) -> None:
        if self._descriptor is not None or self._closed:
            return
        self._absent, self._broken = "", None
        try:
            # O_NONBLOCK: the end of the log and a FIFO without a writer answer at once.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._path, flags)
        except OSError as error:
            if error.errno in _ABSENT:
                self._absent = f"{self._path} {_ABSENT[error.errno]}"
            else:
                self._broken = SourceError("io", f"{self._path}: {error.strerror}")
            return
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISREG(mode):
            self._descriptor = descriptor
        else:
            os.close(descriptor)
            kind = "a directory" if stat.S_ISDIR(mode) else "no log"
            self._broken = SourceError(
                "not_a_log", f"{self._path} is {kind}; it must be the kernel's /dev/kmsg"
            )

    def _shut(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._rest = None, b""

    def _turn(self) -> None:
        if self._descriptor is None:
            return
        now, ahead = self._clock.monotonic(), self._clock.monotonic() - self._stamps()
        left = TURN_BYTES
        while left > 0 and len(self._waiting) < MAX_WAITING:
            try:
                chunk = self._read(self._descriptor, READ_BYTES)
            except BlockingIOError:
                self._drained = now
                return
            except OSError as error:
                left -= READ_COST
                self._stumble(error)
                continue
            if not chunk:
                self._drained = now
                return
            left -= max(len(chunk), READ_COST)
            self._chunk(chunk, now, ahead)

    def _stumble(self, error: OSError) -> None:
        """A failed read: two kinds say that a record was lost, and the next read goes on."""
        if error.errno == errno.EPIPE:
            self._overrun = True
        elif error.errno == errno.EINVAL:
            self._too_long()
        else:
            self._shut()
            raise SourceError("io", f"{self._path}: {error.strerror}") from error

    def _chunk(self, chunk: bytes, now: float, ahead: float) -> None:
        whole = self._rest + chunk if self._rest else chunk
        *records, rest = whole.split(b"\n")
        if len(rest) > READ_BYTES:
            self._too_long()
            rest = b""
        self._rest = rest
        for record in records:
            if record and not record.startswith(b" "):
                self._record(record, now, ahead)

    def _record(self, record: bytes, now: float, ahead: float) -> None:
        match = RECORD.fullmatch(record)
        if match is None:
            self._reject("content", f"{self._path}: {record[:80]!r} is not a record")
            return
        sequence = int(match[2])
        if self._last is not None:
            if sequence <= self._last:
                return
            # Numbers have no gaps but those that an overrun leaves.
            self._dropped += max(sequence - self._last - 1, int(self._overrun))
        self._last, self._overrun = sequence, False
        raw = match[4]
        if not any(mark in raw for mark in MARKS):
            return
        # What is read now has happened since the log was last read to its end.
        stamp = min(max(int(match[3]) / 1e6 + ahead, self._drained), now)
        text = spelled_out(raw)
        try:
            event = parse(text, stamp)
        except ValueError as error:
            self._unread[NVIDIA] += 1
            self._reject("content", f"{self._path}: {error}")
            return
        if event is not None:
            self._waiting.append(event)
        elif whose := unread(text, int(match[1]) & LEVEL):
            self._unread[whose] += 1
            self._reject("unread", f"{self._path}: no pattern reads {text[:120]!r}")

    def _too_long(self) -> None:
        self._reject("too_long", f"{self._path}: a record is longer than {READ_BYTES} bytes")

    def _reject(self, reason: str, message: str) -> None:
        if len(self._rejected) < MAX_REJECTED:
            self._rejected.append(Rejected(reason, message))
