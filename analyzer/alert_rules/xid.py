"""Alerts about what the driver logged of GPUs: XIDs."""

from analyzer.alert_rules.shape import GPU, Alert, Recording, Severity
from collector.contract.alerted import XIDS_APPLICATION, XIDS_CONTAINED, XIDS_FATAL


def _any(numbers: tuple[int, ...]) -> str:
    return f'{{xid=~"{"|".join(map(str, numbers))}"}}'


_FATAL = _any(XIDS_FATAL)

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
            " replaced. The rank on it is lost, and the whole run waits for it."
        ),
        source=(
            "DCGM 4.6 fails health on XID 48, 74, 79, 95, 119, 120, 140, and on 64 as row-remap"
            " failure; NVSentinel rates them fatal too (74 by its registers)."
        ),
    ),
)  # fmt: skip

DAY = (
    # One series a GPU and XID whatever replicas, pods and tellers there are: so two tellers of one
    # event, or two replicas, are not two events, and a roll-out between two events hides none.
    Recording(
        "node_gpu_uuid_xid:lockstep_gpu_xid_errors:sum",
        "sum by (node, gpu, uuid, xid) (max by (node, gpu, uuid, xid, source)"
        f" (lockstep_gpu_xid_errors_total{_any(XIDS_CONTAINED + XIDS_APPLICATION)}))",
    ),
    # `for`: of two or three samples `increase` extrapolates one event to two.
    Alert(
        "GpuXidContainedRepeated",
        "increase(node_gpu_uuid_xid:lockstep_gpu_xid_errors:sum"
        f"{_any(XIDS_CONTAINED)}[24h]) >= 2",
        Severity.WARNING, "drain_when_idle",
        summary=f"{GPU}: XID {{{{ $labels.xid }}}} for the second time in a day",
        description=(
            "A memory error was contained, again. Work goes on, but the memory of this GPU is"
            " failing: take it out when its job is done."
        ),
        source=(
            "DCGM warns on each 63 and 94 (NVIDIA's catalogue ignores 63), gpud never reboots for"
            " 94; two a day is a choice of ours."
        ),
        wait="1m",
    ),
    Alert(
        "GpuXidAppRepeatedSameGpu",
        "increase(node_gpu_uuid_xid:lockstep_gpu_xid_errors:sum"
        f"{_any(XIDS_APPLICATION)}[24h]) >= 2",
        Severity.INFO, "diag",
        summary=f"{GPU}: XID {{{{ $labels.xid }}}} for the second time in a day",
        description=(
            "Mostly a fault of the program, but twice on one GPU while others have none points at"
            " the GPU: run diagnostics when it is idle."
        ),
        source=(
            "NVSentinel RepeatedXID31OnSameGPU and RepeatedXID13OnSameGPU: on different GPUs it is"
            " software."
        ),
        wait="1m",
    ),
)  # fmt: skip
