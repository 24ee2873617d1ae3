"""The kernel log: its records in every form, and the events that lines report.

Read are the forms of the device itself (/dev/kmsg), of dmesg with any of its options (-x, -r, -T,
-e, -d, -J, --time-format, --color), of journalctl with any of its short outputs, cat and json, of
syslog files (RFC 3164 and 5424, with and without the uptime), of talosctl, and of pstore.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from lockstep.collector.contract import bounded_json, kernel_log
from lockstep.collector.readings.kernel import (
    Fall,
    KernelEvent,
    SwitchError,
    Trouble,
    XidEvent,
    pci_bus_id,
)

# Events: the forms of the NVIDIA drivers, and those of the table (contract.kernel_log). A line is
# the text of one record, without a priority or a time.

LEVEL = 7
"""The bits of a priority that are its level."""
_FIELDS = r"([0-9]{1,5}),([0-9]{1,19}),([0-9]{1,16}),[^;\n]{0,128};(.*)"
RECORD = re.compile(_FIELDS.encode(), re.DOTALL)
"""A record of /dev/kmsg: priority, sequence, microseconds since boot, text
(Documentation/ABI/testing/dev-kmsg)."""
_RECORD = re.compile(_FIELDS, re.ASCII)
MARKS = (b"SXid (", *(mark.encode() for mark in kernel_log.MARKS))
"""A record without one of these is about something else."""
MAX_TEXT = 512
"""Characters of a line that are kept."""
WARNING_LEVEL = 4
"""KERN_WARNING: what a driver says above it (notice, info) is no trouble."""

# All are matched at the start of the text: what a device or a process calls itself stands later
# in a line of its own ("usb 1-1: Product: ..."), so that nobody can talk in the driver's name.
# Inside the parenthesis may stand a MIG instance ("GPU-I:05"), and there may be no function. The
# comma behind the number is always there: without it the line was cut, perhaps inside the number.
_XID = re.compile(r"NVRM: Xid \(([0-9A-Za-z:.]{4,32})( [^()]{0,40})?\): ([0-9]{1,4}),", re.ASCII)
_BLAMED = re.compile(
    r", pid='?([0-9]{1,10}|<unknown>)'?(?=,)(?:, name=([^,]{0,64})(?=,))?", re.ASCII
)
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
    """The event that a line of the log reports, or None.

    Runs of blanks are one blank: drivers pad their words to columns. An SXID takes several
    lines (severity and link, engine, registers): only the one with its severity is the event.

    Raises:
        ValueError: The line is that of an XID or SXID, and says neither number nor place.
    """
    text = " ".join(text.split())
    if text.startswith("NVRM: Xid"):
        return _xid(text, monotonic)
    if (match := _SXID.match(text)) is not None:
        place = _place(match[1], text)
        fatal = match[3] == "Fatal"
        return SwitchError(monotonic, place, int(match[2]), "fatal" if fatal else "nonfatal")
    if text.startswith("nvidia-nvswitch") and "SXid (" in text and not _DETAIL.match(text):
        raise ValueError(f"{text[:80]!r} is not an SXID")
    if "fallen off the bus" in text and (match := _FALLEN.match(text)) is not None:
        return Fall(monotonic, _place(match[1], text))
    row_match = _row(text)
    if row_match is None or not row_match[0].kind:
        return None
    row, match = row_match
    groups = match.groupdict()
    device = groups.get("device") or groups.get("name") or ""
    device = pci_bus_id(device) or device
    return Trouble(monotonic, row.kind, row.rated(match), device, text[:MAX_TEXT])


def unread(text: str, level: int | None = None) -> str:
    """The driver that says something here which no row reads; empty: no driver of ours does.

    Args:
        text: A line of which `parse` told nothing.
        level: Its priority, 0 to 7; None: not told.
    """
    if level is not None and level > WARNING_LEVEL:
        return ""
    text = " ".join(text.split())
    drivers = (name for name, begin in kernel_log.DRIVERS.items() if begin.match(text))
    return next((name for name in drivers if _row(text) is None), "")


def spelled_out(raw: bytes) -> str:
    """The text of a record: the kernel's escapes resolved, line ends and the like as spaces."""
    text = raw.decode("utf-8", "replace")
    if text.isprintable() and "\\" not in text:
        return text
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _row(text: str) -> tuple[kernel_log.KernelLine, re.Match[str]] | None:
    """The row that reads a line, and how."""
    matches = ((row, row.pattern.match(text)) for row in kernel_log.LINES)
    return next(((row, match) for row, match in matches if match is not None), None)


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


def _place(name: str, text: str) -> str:
    place = pci_bus_id(name)
    if place is None:
        raise ValueError(f"{text[:80]!r} names no place on the PCI bus")
    return place


LONGEST = 8192
"""Characters of a line that are looked at."""
CONTINUED = 3
"""Lines that one record is at most."""
LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
"""As dmesg -x names them, by their number (syslog(2))."""
_ABOUT = re.compile(r" [A-Z_]{1,32}=")
"""What udev knows of the device in the record before."""
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")

_WORD = r"\S{0,62}[^\s:]"
_OFFSET = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_ISO = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}{_OFFSET}"
# [  201.668783] · [Sun Feb 23 16:24:18 2025] · [Feb23 16:24] · [  +0.000012] ·
# [  201.668783 <    0.000012>] · [2025-02-23T16:24:18.221034Z]; a message's own has no number.
_BRACKET = r"\[[^\[\]\n]{0,48}[0-9][^\[\]\n]{0,24}\]"
_CALLER = r"\[ *[TC][0-9]{1,8}\]"
_LEVEL = rf"(?P<facility>[a-z0-9]{{1,10}}) *: *(?P<level>{'|'.join(LEVELS)})[a-z]{{0,5}} *: *"
_FRONT = re.compile(
    r"(?:<(?P<priority>[0-9]{1,3})>(?:1 (?=[0-9]{4}-))?)?"
    rf"(?:[\w.-]{{1,63}}: (?={_LEVEL.replace('?P<facility>', '?:').replace('?P<level>', '?:')}\[))?"
    rf"(?:{_LEVEL})?"
    rf"(?:(?:{_BRACKET}:? *)?(?:{_WORD}(?: +{_WORD}){{0,5}} +)?kernel(?:\[[0-9]{{1,10}}\])?"
    r"(?:: *| (?:- ){2,3}))?"
    rf"(?:(?:{_BRACKET}:?|{_ISO}) *){{0,2}}(?:{_CALLER} *)?",
    re.ASCII,
)
_BEGUN = re.compile(r"NVRM: The NVIDIA GPU \S{5,20}$", re.ASCII)
_CONTINUED = re.compile(r"NVRM: (?:\(PCI ID|installed|fallen off)")


class Line(NamedTuple):
    """One record.

    Attributes:
        level: 0 (emergency) to 7 (debug), or None where the form does not tell it.
    """

    text: str
    level: int | None = None


def records(text: str) -> Iterator[Line]:
    """The records of a log.

    A log that does not end with a line end was cut there: its last line is left out, for what it
    says may be half a number. Records of several lines are put together again.
    """
    document = _document(text)
    if document is not None:
        yield from document
        return
    *lines, _ = text.split("\n")
    begun: list[Line] = []
    for line in (_bare(raw) for raw in lines if not _ABOUT.match(raw)):
        if begun and _CONTINUED.match(line.text) and len(begun) < CONTINUED:
            begun.append(line)
            continue
        if begun:
            yield _joined(begun)
            begun = []
        if _BEGUN.match(line.text):
            begun = [line]
        elif line.text:
            yield line
    if begun:
        yield _joined(begun)


def messages(text: str) -> Iterator[str]:
    """The text of each record."""
    return (line.text for line in records(text))


def _joined(lines: list[Line]) -> Line:
    return Line(" ".join(line.text for line in lines), lines[0].level)


def _bare(line: str) -> Line:
    line = line[:LONGEST].rstrip("\r")
    record = _RECORD.fullmatch(line)
    if record is not None:
        return Line(spelled_out(record[4].encode("utf-8", "replace")), int(record[1]) & LEVEL)
    if line.startswith("{"):
        return _of_journal(line)
    line = _COLOUR.sub("", line)
    front = _FRONT.match(line)
    if front is None:
        return Line(line.strip())
    return Line(spelled_out(line[front.end() :].strip().encode("utf-8", "replace")), _level(front))


def _level(front: re.Match[str]) -> int | None:
    if front["level"]:
        return LEVELS.index(front["level"])
    return int(front["priority"]) & LEVEL if front["priority"] else None


def _of_journal(line: str) -> Line:
    """A record of journalctl -o json; what is no record of the kernel tells nothing."""
    try:
        tree = bounded_json.loads(line)
    except ValueError:
        return Line(line.strip())
    if not isinstance(tree, dict) or tree.get("_TRANSPORT") != "kernel":
        return Line("")
    return _told(tree.get("MESSAGE"), tree.get("PRIORITY"))


def _document(text: str) -> list[Line] | None:
    """The records of dmesg -J, or None where the text is no such document."""
    if not text.startswith("{") or '"dmesg"' not in text[:200]:
        return None
    try:
        tree = bounded_json.loads(text)
        return [_told(record.get("msg"), record.get("pri")) for record in tree["dmesg"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _told(message: Any, priority: Any) -> Line:
    text = spelled_out(message.encode("utf-8", "replace")) if isinstance(message, str) else ""
    number = str(priority)
    is_number = number.isascii() and number.isdecimal() and len(number) < 6
    return Line(text[:LONGEST], int(number) & LEVEL if is_number else None)
