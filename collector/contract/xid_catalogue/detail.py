"""What the text of an XID message tells beyond its number."""

import re
from dataclasses import dataclass

from lockstep.collector.contract.xid_catalogue.rows import ROWS
from lockstep.collector.contract.xid_catalogue.shape import Action, Bucket

NVLINK5 = frozenset(row.number for row in ROWS if row.bucket is Bucket.WORKFLOW_NVLINK5)
"""XIDs of NVLink 5, which share one form of message."""

_PLACE = re.compile(r"\(GPC (\d{1,3}), TPC (\d{1,3}), SM (\d{1,3})\)", re.ASCII)
# With seven registers behind the link or, of older drivers, with none.
_LINK = re.compile(
    r"link (\d{1,3})(?:\s{0,8}\((?:0x[0-9a-f]{1,8},?\s{0,8}){7}\)|(?=[.\s]*$))", re.I | re.A
)
_TRAINING = re.compile(r"failed to train link (\d{1,3}) ", re.I | re.A)
_NOT_FATAL = re.compile(r"\bnon-?fatal\b", re.I | re.A)
_NVLINK5 = re.compile(
    r"(?:^|, ?)([A-Z]\w{0,31}(?:/\w{1,31})?)\s{1,8}(Link Fatal|Fatal|Nonfatal|Non-fatal)\s{1,8}XC",
    re.IGNORECASE | re.ASCII,
)
# The driver writes two digits: behind one alone the line was cut. So may the registers be.
_NVLINK5_LINK = re.compile(
    r"\bi\d\s{1,8}Link\s{1,8}(-?\d{1,3}(?=[\s(])|\d{2,3}(?=$)|-\d(?=$))", re.I | re.A
)
_CHANGED = re.compile(
    r"recovery action changed from .{0,64} to \S{1,12}\s{1,8}\(([a-z0-9 ]{1,64})\)", re.I | re.A
)
_FOLLOWS = re.compile(r"\bcaused by previous Xid (?:(\d{1,4})(?=[.,\s]*$))?", re.I | re.A)

_RECOVERY = {
    "none": Action.NONE,
    "gpu reset required": Action.COMPONENT_RESET,
    "drain and reset": Action.COMPONENT_RESET,
    "node reboot required": Action.RESTART_BM,
    "drain p2p": Action.DRAIN_P2P,
    "recover imex domain": Action.RECOVER_IMEX_DOMAIN,
}


@dataclass(frozen=True, slots=True)
class Detail:
    """What one message told; what it did not tell is None or empty.

    Attributes:
        action: What to do, where the message decides that (XID 154, NVLink 5).
        place: GPC, TPC and SM of a graphics exception (XID 13).
        link: NVLink link.
        component: NVLink 5: the part of the link that complains.
        fatal: NVLink: what the message says.
        follows: Whether the message says that it follows from an earlier XID (XID 45).
        caused_by: That XID.
    """

    action: Action | None = None
    place: tuple[int, int, int] | None = None
    link: int | None = None
    component: str = ""
    fatal: bool | None = None
    follows: bool = False
    caused_by: int | None = None


def detail(xid: int, text: str) -> Detail:
    """Read the message of an XID; the forms are those of the driver up to R595.

    Source: NVIDIA open-gpu-kernel-modules 595.45.04: `kernel_rc.c` (what an XID 45 follows from),
    `gpu.c` (names of recovery actions), `kernel_nvlinkcorelibtrain.c` (XID 74 without registers).

    NVLink 5's action here is only that of its word: NVIDIA's decode table for intrInfo and
    errorStatus has a few exceptions, and an XID 154 beside it is stronger.
    """
    if xid == 13 and (match := _PLACE.search(text)):
        return Detail(place=(int(match[1]), int(match[2]), int(match[3])))
    if xid == 45 and (match := _FOLLOWS.search(text)):
        return Detail(follows=True, caused_by=int(match[1]) if match[1] else None)
    if xid == 74:
        match = _LINK.search(text) or _TRAINING.search(text)
        fatal = False if _NOT_FATAL.search(text) else True if "fatal error" in text else None
        return Detail(link=None if match is None else int(match[1]), fatal=fatal)
    if xid == 154 and (match := _CHANGED.search(text)):
        word = " ".join(match[1].lower().split())
        return Detail(action=_RECOVERY.get(word, Action.CONTACT_SUPPORT))
    if xid in NVLINK5 and (match := _NVLINK5.search(text)):
        fatal = match[2].lower() in ("fatal", "link fatal")
        told = _NVLINK5_LINK.search(text, match.end())
        link = int(told[1]) if told is not None else -1
        return Detail(
            action=Action.COMPONENT_RESET if fatal else None,
            link=link if link >= 0 else None,
            component=match[1],
            fatal=fatal,
        )
    return Detail()
