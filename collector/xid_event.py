"""An XID event: the driver's word that something went wrong on a GPU, whoever heard it."""

import re
from dataclasses import dataclass
from typing import Literal

_BUS_ID = re.compile(
    r"(?:PCI:)?(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class XidEvent:
    """One event; a repeat is an event of its own.

    Attributes:
        monotonic: Seconds of CLOCK_MONOTONIC when it happened, or when it was heard of.
        pci_bus_id: As `pci_bus_id` writes it.
        xid: NVIDIA's number of the error.
        origin: Who told.
        text: The kernel's line, or empty.
        pid: The process that the driver blames, or None.
        process: Its name, or empty.
        uuid: The GPU's, or empty where only its place on the bus was told.
        gpu_instance: Of the MIG device that it concerns, or None.
        compute_instance: Likewise.
    """

    monotonic: float
    pci_bus_id: str
    xid: int
    origin: Literal["nvml", "kmsg", "dcgm"]
    text: str = ""
    pid: int | None = None
    process: str = ""
    uuid: str = ""
    gpu_instance: int | None = None
    compute_instance: int | None = None


def pci_bus_id(told: str) -> str | None:
    """One spelling of a GPU's place on the PCI bus, `0000:65:00.0`; None if it names no place.

    NVML writes `00000000:65:00.0`, the kernel `PCI:0000:65:00` (no function) and sysfs
    `0000:65:00.0`; a domain beyond four digits keeps them all, as in sysfs.
    """
    match = _BUS_ID.fullmatch(told.strip())
    if match is None:
        return None
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
