"""Events of the kernel log: XIDs, and trouble without an XID."""

import re
from dataclasses import dataclass
from typing import Literal

from lockstep.collector.contract.xid_catalogue.shape import Severity

# XID events: the driver reports that something went wrong on a GPU.

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


def pci_bus_id(text: str) -> str | None:
    """One spelling of a GPU's place on the PCI bus, `0000:65:00.0`; None if it names no place.

    NVML writes `00000000:65:00.0`, the kernel `PCI:0000:65:00` (no function) and sysfs
    `0000:65:00.0`; a domain beyond four digits keeps them all, as in sysfs.
    """
    match = _BUS_ID.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


@dataclass(frozen=True, slots=True)
class SwitchError:
    """One SXID: the NVSwitch driver's word that something went wrong.

    Attributes:
        monotonic: Seconds of CLOCK_MONOTONIC when it happened.
        pci_bus_id: Of the switch, as `lockstep.collector.readings.xid.pci_bus_id` writes it.
        sxid: NVIDIA's number of the error.
        severity: As the driver says.
    """

    monotonic: float
    pci_bus_id: str
    sxid: int
    severity: Literal["fatal", "nonfatal"]


@dataclass(frozen=True, slots=True)
class Fall:
    """A GPU does not answer on the PCI bus any more; said without an XID."""

    monotonic: float
    pci_bus_id: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """A line of `collector.contract.kernel_log`: no XID, and yet it ends or slows down a run.

    Attributes:
        monotonic: As above.
        kind: Of `lockstep.collector.contract.kernel_log.KINDS`.
        severity: By this line.
        device: Its place on the PCI bus as `pci_bus_id` writes it, its name, or empty.
        text: The kernel's line.
    """

    monotonic: float
    kind: str
    severity: Severity
    device: str = ""
    text: str = ""


KernelEvent = XidEvent | SwitchError | Fall | Trouble


@dataclass(frozen=True, slots=True)
class KernelEvents:
    """What was heard since it was asked for last.

    Attributes:
        events: In the order of the log.
        sequence: Of the last record that was read, or None before the first one: all of it is
            told in these events or earlier ones.
    """

    events: tuple[KernelEvent, ...]
    sequence: int | None
