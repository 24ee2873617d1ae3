"""What a line of the kernel log tells: the forms of the NVIDIA drivers, and those of the table.

A line is the text of one record: without a priority or a time, as the kernel wrote it.
"""

import re

from lockstep.collector.contract import kernel_log
from lockstep.collector.kernel_event import Fall, KernelEvent, SwitchError, Trouble
from lockstep.collector.xid_event import XidEvent, pci_bus_id

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
    """The event that a line of the log tells, or None if it tells of none.

    Runs of blanks are one blank: drivers pad their words to columns. An SXID is told in several
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
    found = _row(text)
    if found is None or not found[0].kind:
        return None
    row, match = found
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
    return "".join(one if one.isprintable() else " " for one in text)


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


def _place(told: str, text: str) -> str:
    place = pci_bus_id(told)
    if place is None:
        raise ValueError(f"{text[:80]!r} names no place on the PCI bus")
    return place
