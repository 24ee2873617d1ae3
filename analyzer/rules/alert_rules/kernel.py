"""Alerts about lines of the kernel log without an XID: `lockstep.collector.contract.kernel_log`."""

from lockstep.analyzer.rules.alert_rules.shape import Alert, Severity
from lockstep.collector.contract.kernel_log import TOLD
from lockstep.collector.contract.xid_catalogue.shape import Severity as Line

_LAST = 'lockstep_kernel_event_last_timestamp_seconds{severity="fatal"}'


def _kinds(severity: Line) -> str:
    return ", ".join(kind for kind, each in TOLD if each is severity)


KERNEL = (
    # As GpuXidFatal: the count rose, or the last line is not the one known five minutes ago.
    Alert(
        "KernelEventFatal",
        f"""\
max by (node, kind) (increase(lockstep_kernel_events_total{{severity="fatal"}}[5m])) > 0
or
(
  max by (node, kind) ({_LAST})
  unless
  max by (node, kind) ({_LAST})
  <= on (node, kind)
  max by (node, kind) (last_over_time({_LAST}[1d] offset 5m)) + 60
)""",
        Severity.CRITICAL, "quarantine",
        summary="{{ $labels.node }}: the kernel logged {{ $labels.kind }}, fatal",
        description=(
            "A GPU, NIC, bus or processor of the node has failed without an XID. Ranks on the node"
            f" hang or end. Kinds: {_kinds(Line.FATAL)}; docs/reference/kernel-events.md says what"
            " each is."
        ),
        source=(
            "Severity by the kernel's own words, or by NVSentinel's rules for NICs; the table is"
            " docs/reference/kernel-events.md."
        ),
    ),
    Alert(
        "KernelEventWarning",
        'max by (node, kind) (increase(lockstep_kernel_events_total{severity="warning"}[1h])) > 0',
        Severity.WARNING, "diag",
        summary="{{ $labels.node }}: the kernel logged {{ $labels.kind }}",
        description=(
            "The kernel told of trouble that slows a run down or ends a process, and does not last."
            f" Kinds: {_kinds(Line.WARNING)}."
        ),
        source="Severity by the kernel's own words; an hour is a choice of ours.",
        wait="1m",
    ),
)  # fmt: skip
