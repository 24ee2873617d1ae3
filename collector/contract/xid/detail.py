"""What the text of an XID message tells beyond its number."""

import re
from dataclasses import dataclass

from collector.contract.xid.shape import Action

NVLINK5 = range(144, 151)
"""XIDs of NVLink 5, which share one form of message."""

_PLACE = re.compile(r"\(GPC (\d{1,3}), TPC (\d{1,3}), SM (\d{1,3})\)", re.ASCII)
_LINK = re.compile(r"link (\d{1,3})\s?\((0x[0-9a-f]{1,8}(?:, ?0x[0-9a-f]{1,8}){6})\)", re.I | re.A)
_NVLINK5 = re.compile(
    r"(\w[\w /]{0,31}?) (Fatal|Nonfatal|Non-fatal) XC([01]) i([01]) Link (-?\d{1,3})"
    r" \((0x[0-9a-f]{1,8}) (0x[0-9a-f]{1,8})((?: 0x[0-9a-f]{1,8}){0,8})",
    re.IGNORECASE | re.ASCII,
)
_CHANGED = re.compile(
    r"recovery action changed from .{0,64} to 0x[0-9a-f]+ \(([^()]{1,64})\)", re.I
)

_RECOVERY = {
    "none": Action.NONE,
    "gpu reset required": Action.COMPONENT_RESET,
    "drain and reset": Action.COMPONENT_RESET,
    "node reboot required": Action.RESTART_BM,
}


@dataclass(frozen=True, slots=True)
class Detail:
    """What one message told; what it did not tell is None or empty.

    Attributes:
        action: What to do, where the message decides that (XID 154, NVLink 5).
        place: GPC, TPC and SM of a graphics exception (XID 13).
        link: NVLink link.
        component: NVLink 5: the part of the link that complains.
        fatal: NVLink 5: what the message says.
    """

    action: Action | None = None
    place: tuple[int, int, int] | None = None
    link: int | None = None
    component: str = ""
    fatal: bool | None = None


def detail(xid: int, text: str) -> Detail:
    """Read the message of an XID; the forms are those of the driver up to R590.

    NVLink 5's action here is only that of its word: NVIDIA's decode table for intrInfo and
    errorStatus has a few exceptions, and an XID 154 beside it is stronger.
    """
    if xid == 13 and (match := _PLACE.search(text)):
        return Detail(place=(int(match[1]), int(match[2]), int(match[3])))
    if xid == 74 and (match := _LINK.search(text)):
        return Detail(link=int(match[1]))
    if xid == 154 and (match := _CHANGED.search(text)):
        return Detail(action=_RECOVERY.get(match[1].strip().lower(), Action.CONTACT_SUPPORT))
    if xid in NVLINK5 and (match := _NVLINK5.search(text)):
        fatal, link = match[2].lower() == "fatal", int(match[5])
        return Detail(
            action=Action.COMPONENT_RESET if fatal else None,
            link=link if link >= 0 else None,
            component=match[1],
            fatal=fatal,
        )
    return Detail()
