"""The words in which an XID is described: bucket, action, severity, fault, part."""

from dataclasses import dataclass
from enum import StrEnum


class Bucket(StrEnum):
    """NVIDIA's word for the immediate action (Xid catalogue, "resolution bucket")."""

    RESTART_APP = "RESTART_APP"
    IGNORE = "IGNORE"
    RESET_GPU = "RESET_GPU"
    RESTART_BM = "RESTART_BM"
    RESTART_VM = "RESTART_VM"
    CHECK_MECHANICALS = "CHECK_MECHANICALS"
    UPDATE_SWFW = "UPDATE_SWFW"
    CHECK_UVM = "CHECK_UVM"
    WORKFLOW_XID_45 = "WORKFLOW_XID_45"
    WORKFLOW_XID_48 = "WORKFLOW_XID_48"
    WORKFLOW_NVLINK = "WORKFLOW_NVLINK_ERR"
    WORKFLOW_NVLINK5 = "WORKFLOW_NVLINK5_ERR"
    XID_154 = "XID_154"
    CONTACT_SUPPORT = "CONTACT_SUPPORT"
    UNRATED = ""


class Action(StrEnum):
    """What an operator's machinery can do about it: NVSentinel's words, and two of the driver."""

    NONE = "NONE"
    COMPONENT_RESET = "COMPONENT_RESET"
    DRAIN_P2P = "DRAIN_P2P"
    RECOVER_IMEX_DOMAIN = "RECOVER_IMEX_DOMAIN"
    RESTART_BM = "RESTART_BM"
    RESTART_VM = "RESTART_VM"
    CONTACT_SUPPORT = "CONTACT_SUPPORT"


class Severity(StrEnum):
    """How bad it is: only `fatal` takes the GPU out of work, and pages."""

    INFO = "info"
    WARNING = "warning"
    FATAL = "fatal"


class Fault(StrEnum):
    """Whose fault it is: software is the driver's or the GPU's firmware's."""

    HARDWARE = "hardware"
    APPLICATION = "application"
    SOFTWARE = "software"
    CONSEQUENCE = "consequence of another XID"
    UNKNOWN = "unknown"


class Part(StrEnum):
    """The part of the GPU that it is about, where that part is a cause of its own."""

    MEMORY = "memory"
    NVLINK = "NVLink"
    PCIE = "PCIe"
    OTHER = ""


class Repeats(StrEnum):
    """What the second one within a day on one GPU says, where a first one says nothing."""

    CONTAINED = "the GPU's memory is failing"
    APPLICATION = "perhaps it is not the application"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Xid:
    """One row of the catalogue.

    Attributes:
        name: What the driver's source calls it; empty where it is not there.
        text: What happened, in a few words.
        bucket: NVIDIA's immediate action.
        action: The same for machinery; None where the message itself decides, or nobody does.
        fatal: Whether the GPU needs mending before work goes on; None as for `action`.
        severity: By the default policy, where the message does not say (`judged`).
        fault: Whose, where the message does not say.
        part: Of the GPU.
        repeats: What a second one within a day says.
        advice: The immediate action in words, for whoever is paged.
        dcgm: `FAIL` or `WARN` of DCGM's health check, or empty where it does not look.
        gpud: `Info`, `Warning`, `Critical` or `Fatal` of gpud, or empty where it has no row.
        source: Where text and bucket come from.
    """

    number: int
    name: str
    text: str
    bucket: Bucket
    action: Action | None
    fatal: bool | None
    severity: Severity
    fault: Fault
    part: Part
    repeats: Repeats
    advice: str
    dcgm: str
    gpud: str
    source: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one event is, by its message.

    Attributes:
        severity: As the message says, or the catalogue where it says nothing.
        fault: Whose.
        action: What machinery can do; None where nobody says.
        caused_by: The XID that it follows from, as the message says; None = not told.
        by_line: Whether the message said how bad it is.
    """

    severity: Severity
    fault: Fault
    action: Action | None
    caused_by: int | None = None
    by_line: bool = False
