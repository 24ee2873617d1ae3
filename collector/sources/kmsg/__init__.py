"""The kernel's log, /dev/kmsg: read without waiting, record by record, none twice.

Format: kernel Documentation/ABI/testing/dev-kmsg, `prio,seq,microseconds,flag;text` and lines that
begin with a space and say which device is meant. A FIFO or a file of such records works as well.
"""

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collector.clock import Clock
from collector.kernel_event import Fall, KernelEvent, KernelEvents, SwitchError
from collector.reading import Rejected, SourceError
from collector.xid_event import XidEvent, pci_bus_id

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
"""Malformed records that are told by one reading."""

_HEADER = re.compile(rb"([0-9]{1,5}),([0-9]{1,19}),([0-9]{1,16}),[^;\n]{0,128};(.*)", re.DOTALL)
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
    """

    dropped: int
    rejected: tuple[Rejected, ...]


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
        on the way is told by `read`.
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
            return KernelLog(self._dropped, rejected)

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
        match = _HEADER.fullmatch(record)
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
        try:
            event = parse(spelled_out(raw), stamp)
        except ValueError as error:
            self._reject("content", f"{self._path}: {error}")
            return
        if event is not None:
            self._waiting.append(event)

    def _too_long(self) -> None:
        self._reject("too_long", f"{self._path}: a record is longer than {READ_BYTES} bytes")

    def _reject(self, reason: str, message: str) -> None:
        if len(self._rejected) < MAX_REJECTED:
            self._rejected.append(Rejected(reason, message))


MARKS = (b"NVRM: ", b"SXid (")
"""A record without one of these is about something else."""
MAX_TEXT = 512
"""Characters of a line that are kept."""

# All are matched at the start of the text: what a device or a process calls itself stands later
# in a line of its own ("usb 1-1: Product: ..."), so that nobody can talk in the driver's name.
# Inside the parenthesis may stand a MIG instance ("GPU-I:05"), and there may be no function.
_XID = re.compile(r"NVRM: Xid \(([0-9A-Za-z:.]{5,32})( [^()]{0,40})?\): ([0-9]{1,4})(?:,|$)", re.A)
_BLAMED = re.compile(r", pid='?([0-9]{1,10}|<unknown>)'?(?:, name=([^,]{0,64}))?", re.ASCII)
_SXID = re.compile(
    r"nvidia-nvswitch[0-9]{1,3}: SXid \(([0-9A-Za-z:.]{5,32})\): ([0-9]{1,6}), (Fatal|Non-fatal),",
    re.ASCII,
)
_DETAIL = re.compile(r"nvidia-nvswitch[0-9]{1,3}: SXid \([^()]{5,32}\): [0-9]{1,6}, ", re.ASCII)
_FALLEN = re.compile(
    r"NVRM: (?:The NVIDIA )?GPU (?:at )?((?:PCI:)?[0-9A-Fa-f:.]{5,20}?)(?=[: ]\s?\D).{0,128}"
    r"fallen off the bus",
    re.ASCII,
)
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})", re.ASCII)


def parse(text: str, monotonic: float) -> KernelEvent | None:
    """The event that a line of the log tells, or None if it tells of none.

    An SXID is told in several lines (severity and link, engine, registers): only the one with its
    severity is the event.

    Raises:
        ValueError: The line is that of an XID or SXID, and says neither number nor place.
    """
    if text.startswith("NVRM: Xid "):
        return _xid(text, monotonic)
    if (match := _SXID.match(text)) is not None:
        place = _place(match[1], text)
        fatal = match[3] == "Fatal"
        return SwitchError(monotonic, place, int(match[2]), "fatal" if fatal else "nonfatal")
    if text.startswith("nvidia-nvswitch") and "SXid (" in text and not _DETAIL.match(text):
        raise ValueError(f"{text[:80]!r} is not an SXID")
    if "fallen off the bus" in text and (match := _FALLEN.match(text)) is not None:
        return Fall(monotonic, _place(match[1], text))
    return None


def spelled_out(raw: bytes) -> str:
    """The text of a record: the kernel's escapes resolved, line ends and the like as spaces."""
    text = raw.decode("utf-8", "replace")
    if text.isprintable() and "\\" not in text:
        return text
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return "".join(one if one.isprintable() else " " for one in text)


def _xid(text: str, monotonic: float) -> XidEvent:
    match = _XID.match(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is not an XID")
    blamed = _BLAMED.match(text, match.end() - 1)
    pid = blamed[1] if blamed is not None else ""
    name = (blamed[2] or "").strip("'") if blamed is not None else ""
    return XidEvent(
        monotonic=monotonic,
        pci_bus_id=_place(match[1], text),
        xid=int(match[3]),
        origin="kmsg",
        text=text[:MAX_TEXT],
        pid=int(pid) if pid.isdigit() else None,
        process="" if name == "<unknown>" else name,
    )


def _place(told: str, text: str) -> str:
    place = pci_bus_id(told)
    if place is None:
        raise ValueError(f"{text[:80]!r} names no place on the PCI bus")
    return place
