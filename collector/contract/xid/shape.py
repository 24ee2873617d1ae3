"""The words in which an XID is described: bucket, action, severity."""

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
    """What an operator's machinery can do about it, in NVSentinel's words."""

    NONE = "NONE"
    COMPONENT_RESET = "COMPONENT_RESET"
    RESTART_BM = "RESTART_BM"
    RESTART_VM = "RESTART_VM"
    CONTACT_SUPPORT = "CONTACT_SUPPORT"


class Severity(StrEnum):
    """How bad it is: only `fatal` takes the GPU out of work."""

    INFO = "info"
    WARNING = "warning"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class Xid:
    """One row of the catalogue.

    Attributes:
        text: What happened, in a few words.
        bucket: NVIDIA's immediate action.
        action: The same for machinery; None where the message itself decides, or nobody does.
        fatal: Whether the GPU needs mending before work goes on; None as for `action`.
        severity: By the default policy.
        advice: The immediate action in words, for whoever is paged.
        dcgm: `FAIL` or `WARN` of DCGM's health check, or empty where it does not look.
        gpud: `Info`, `Warning`, `Critical` or `Fatal` of gpud, or empty where it has no row.
        source: Where text and bucket come from.
    """

    number: int
    text: str
    bucket: Bucket
    action: Action | None
    fatal: bool | None
    severity: Severity
    advice: str
    dcgm: str
    gpud: str
    source: str
