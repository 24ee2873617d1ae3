"""What is looked at on a node: which series, what of them is right, and what to do if it is not.

The table has two interpreters, `archive/checks.py` for samples and `prometheus/checks.py` for
PromQL. Limits are those of the report; a page over Prometheus asks fewer of them, of the last hour.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lockstep.analyzer.read.archive.series import UP
from lockstep.analyzer.report.sections.checks import CHECKS
from lockstep.analyzer.report.sections.checks import Check as Limit
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import xid
from lockstep.dashboard.shapes import Severity

MOST_OFFSET = 0.05
"""Seconds of clock offset from which times of two nodes are no longer compared."""


@dataclass(frozen=True, slots=True)
class State:
    """A gauge that is 1 while all is well."""

    name: str
    metric: str
    severity: Severity
    bad: str
    next_step: str


LIMITS: Mapping[str, Limit] = {limit.what: limit for limit in CHECKS}
CRITICAL = ("uncorrected memory errors", "row remap pending", "row remap failed")
"""Of LIMITS; the others are warnings."""
_RESET = "Reset the GPU between two runs; if they come again, replace it."
NEXT_STEPS: Mapping[str, str] = {
    "XID errors": "Look the XID up in its event, and do what its advice says.",
    "uncorrected memory errors": _RESET,
    "corrected memory errors": _RESET,
    "row remap pending": "Reset the GPU: rows of its memory wait for it.",
    "row remap failed": "Replace the GPU.",
    "throttled by heat": "Look at fans, dust and inlet temperature; drain the node meanwhile.",
    "throttled by power": "Look at the power limit and the supply of the node.",
    "PCIe replays": "Reseat the card, or look at its riser.",
    "NVLink errors": "Run the NVLink diagnostics; look at the cable or bridge.",
    "InfiniBand port errors": "Look at the port's cable and its switch.",
    "network errors": "Look at the cable and at the switch port.",
    "network drops": "Compare with its peers.",
    "processes killed for memory": "Give the job more memory, or find the leak on the Node page.",
    "held back by the CPU quota": "Compare with its peers.",
}
"""Of LIMITS."""
ANSWERED = State(
    "scrapes answered", UP, Severity.WARNING, "failed",
    "Look whether the collector runs on the node, and whether its port is reachable.",
)  # fmt: skip
SYNCHRONISED = State(
    "clock synchronised", m.CLOCK_SYNCHRONIZED.name, Severity.NOTE, "is not",
    "Start chrony or another time service; verdicts from windows need no clock.",
)  # fmt: skip
SOURCES = State(
    "sources up", m.SOURCE_UP.name, Severity.NOTE, "down",
    "lockstep doctor on the node says what is missing.",
)  # fmt: skip
STATES: tuple[State, ...] = (
    ANSWERED,
    State("network links up", m.NET_UP.name, Severity.WARNING, "down", "Look at the cable."),
    State("NVLinks up", m.GPU_NVLINK_UP.name, Severity.CRITICAL, "down",
          "Reset the GPU; if it stays, look at the cable or bridge."),
    State("GPUs answer", m.GPU_UP.name, Severity.CRITICAL, "do not answer",
          "Drain the node and reset the GPU."),
    SYNCHRONISED,
    SOURCES,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Live:
    """How a page says a check that it asks now: counters of the last hour, shares of 5 minutes.

    Attributes:
        bad, good: Its sentence; `bad` is formatted with the value.
    """

    name: str
    check: Limit | State
    bad: str
    good: str
    severity: Severity
    next_step: str


LIVE: tuple[Live, ...] = (
    Live("Answers", ANSWERED, "Its collector does not answer.", "Its collector answers.",
         Severity.CRITICAL, "Look at the collector: lockstep doctor"),
    Live("XID errors", LIMITS["XID errors"], "XIDs in the last hour: {:.0f}.",
         "No XID in the last hour.", Severity.CRITICAL, "Look at the events of its GPUs."),
    Live("Memory errors", LIMITS["uncorrected memory errors"],
         "Uncorrected errors in the last hour: {:.0f}.", "No uncorrected error in the last hour.",
         Severity.CRITICAL, "Drain the node."),
    Live("Heat", LIMITS["throttled by heat"],
         "A GPU was throttled for heat {:.0%} of the last 5 minutes.",
         "No GPU is throttled for heat.", Severity.CRITICAL, "Look at fans and inlet air."),
    Live("Links", Limit("link changes", m.NET_CARRIER_CHANGES),
         "A link came or went {:.0f} times in the last hour.",
         "No link came or went in the last hour.", Severity.WARNING,
         "Look at cable, optics and switch port."),
    Live("Clock", SYNCHRONISED, "Its clock is not synchronised.", "Its clock is synchronised.",
         Severity.WARNING, "Start chrony or ntpd."),
    Live("Sources", SOURCES, "{:.0f} sources of its collector fail.",
         "All sources of its collector answer.", Severity.WARNING, "Data health says which."),
)  # fmt: skip


# An XID on a page: how bad it is, by its label or else by the catalogue, and what it is.

_SHOWN: Mapping[str, Severity] = {
    xid.Severity.INFO: Severity.NOTE, xid.Severity.WARNING: Severity.WARNING,
    xid.Severity.FATAL: Severity.CRITICAL,
}  # fmt: skip


def severity_of(labels: Mapping[str, str]) -> Severity:
    """As the driver's line said; as the catalogue rates the number where nobody told."""
    severity = labels.get("severity") or str(_row(labels).severity)
    return _SHOWN.get(severity, Severity.WARNING)


def words_of(labels: Mapping[str, str]) -> str:
    """What the number means."""
    return _row(labels).text


def _row(labels: Mapping[str, str]) -> xid.Xid:
    code = labels.get("xid", "")
    return xid.describe(int(code) if code.isascii() and code.isdigit() and len(code) < 6 else 0)
