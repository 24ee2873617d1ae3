"""Alerts about what the driver logged of GPUs: XIDs, as the catalogue rates them."""

from lockstep.analyzer.rules.alert_rules.shape import GPU, Alert, Recording, Severity
from lockstep.collector.contract.xid import PAGED, REPEATED, selector
from lockstep.collector.contract.xid_catalogue.shape import Repeats


def _any(numbers: tuple[int, ...]) -> str:
    return f"{{{selector(numbers)}}}"


_CONTAINED, _APPLICATION = REPEATED[Repeats.CONTAINED], REPEATED[Repeats.APPLICATION]
_FATAL = f"{{{selector(PAGED, fatal=True)}}}"

XID = (
    # Two independent ways: the count rose (the collector tells 0 before the first event), or the
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
    # by severity: no line of these rates them otherwise, and older collectors do not tell it.
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
