"""What the kernel log tells: XID events, and what has no XID."""

from dataclasses import dataclass
from typing import Literal

from lockstep.collector.contract.xid import Severity
from lockstep.collector.xid_event import XidEvent


@dataclass(frozen=True, slots=True)
class SwitchError:
    """One SXID: the NVSwitch driver's word that something went wrong.

    Attributes:
        monotonic: Seconds of CLOCK_MONOTONIC when it happened.
        pci_bus_id: Of the switch, as `lockstep.collector.xid_event.pci_bus_id` writes it.
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
