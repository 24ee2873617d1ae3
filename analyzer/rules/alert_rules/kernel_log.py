"""Alerts about the kernel log: XIDs, as the catalogue rates them, and lines without an XID.

The latter are those of `lockstep.collector.contract.kernel_log`.
"""

from lockstep.analyzer.rules.alert_rules.shape import GPU, Alert, Recording, Severity
from lockstep.collector.contract.kernel_log import TOLD
from lockstep.collector.contract.xid import PAGED, REPEATED, selector
from lockstep.collector.contract.xid_catalogue.shape import Repeats
from lockstep.collector.contract.xid_catalogue.shape import Severity as Line


def _any(numbers: tuple[int, ...]) -> str:
    return f"{{{selector(numbers)}}}"


_CONTAINED, _APPLICATION = REPEATED[Repeats.CONTAINED], REPEATED[Repeats.APPLICATION]
_FATAL = f"{{{selector(PAGED, fatal=True)}}}"

XID = (
    # Two independent ways: the count rose (the collector reports 0 before the first event), or the
    # time of the last event is not the one known five minutes ago. The second sees what happened
    # while nobody scraped and what a series was born with, and is not fooled by a count that comes
    # back with another pod. A minute of tolerance: clocks are stepped.
    Alert(
        "GpuXidFatal",
        f"""\
max by (node, gpu, uuid, xid) (increase(lockstep_gpu_xid_errors_total{_FATAL}[5m])) > 0
or
(
  max by (node, gpu, uuid, xid) (lockstep_gpu_xid_last_timestamp_seconds{_FATAL})
  unless
  max by (node, gpu, uuid, xid) (lockstep_gpu_xid_last_timestamp_seconds{_FATAL})
  <= on (node, gpu, uuid, xid)
  max by (node, gpu, uuid, xid)
  (last_over_time(lockstep_gpu_xid_last_timestamp_seconds{_FATAL}[1d] offset 5m)) + 60
)""",
        Severity.CRITICAL, "quarantine",
        summary=f"{GPU}: fatal XID {{{{ $labels.xid }}}}",
        description=(
            "The driver logged an error after which the GPU does not work on until it is reset or"
            " replaced, or its links are. The rank on it is lost, and the whole run waits for it."
        ),
        source=(
            "NVIDIA's Xid catalogue: the GPU, its VM or its node has to be reset or restarted; of"
            " NVLink's XIDs and of the recovery action what the line says. The table is"
            " docs/reference/xids.md."
        ),
    ),
)  # fmt: skip

_COUNT = "node_gpu_uuid_xid:lockstep_gpu_xid_errors:sum"
_ROSE = "node_gpu_uuid_xid:lockstep_gpu_xid_errors:rose"
_TWICE = "twice or more in a day"


def _times(numbers: tuple[int, ...]) -> str:
    """At least two times in a day: the second time begins with the third change of the state."""
    return f"changes({_ROSE}{_any(numbers)}[24h]) >= 3"


DAY = (
    # One series a GPU and XID whatever replicas, pods and tellers there are: so two tellers of one
    # event, or two replicas, are not two events, and a roll-out between two events hides none. Not
    # by severity: no line of these rates them otherwise, and older collectors do not report it.
    Recording(
        _COUNT,
        "sum by (node, gpu, uuid, xid) (max by (node, gpu, uuid, xid, source)"
        f" (lockstep_gpu_xid_errors_total{_any(_CONTAINED + _APPLICATION)}))",
    ),
    # One fault of a program logs an XID once for each unit that it hit, up to dozens of lines in a
    # second, and a burst may lie across two scrapes. So times are counted, not lines: the state is
    # 1 while the count is above that of five minutes ago.
    Recording(_ROSE, f"{_COUNT} > bool last_over_time({_COUNT}[1d] offset 5m)"),
    Alert(
        "GpuXidContainedRepeated",
        _times(_CONTAINED),
        Severity.WARNING, "drain_when_idle",
        summary=f"{GPU}: XID {{{{ $labels.xid }}}} {_TWICE}",
        description=(
            "A memory error was contained, again. Work goes on, but the memory of this GPU is"
            " failing. Lines within five minutes are one time."
        ),
        source=(
            "DCGM warns on each 63 and 94 (NVIDIA's catalogue ignores 63), gpud never reboots for"
            " 94; two a day is a choice of ours."
        ),
    ),
    Alert(
        "GpuXidAppRepeatedSameGpu",
        _times(_APPLICATION),
        Severity.INFO, "diag",
        summary=f"{GPU}: XID {{{{ $labels.xid }}}} {_TWICE}",
        description=(
            "Mostly a fault of the program, but twice on one GPU while others have none points at"
            " the GPU. Lines within five minutes are one time."
        ),
        source=(
            "NVSentinel RepeatedXID31OnSameGPU and RepeatedXID13OnSameGPU: on different GPUs it is"
            " software."
        ),
    ),
)  # fmt: skip


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
            "The kernel reported trouble that slows a run down or ends a process and does not last."
            f" Kinds: {_kinds(Line.WARNING)}."
        ),
        source="Severity by the kernel's own words; an hour is a choice of ours.",
        wait="1m",
    ),
)  # fmt: skip
