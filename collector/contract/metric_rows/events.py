"""Errors that a driver reports as events, and who uses a GPU. One row a metric."""

from lockstep.collector.contract.metric_rows.shape import Kind, Metric, Unshown

_C, _G = Kind.COUNTER, Kind.GAUGE
_PLACE = ("gpu", "uuid", "pci_bus_id")

GPU_XID_ERRORS = Metric(
    "lockstep_gpu_xid_errors_total", _C, (*_PLACE, "xid", "source", "severity"),
    "XID events since boot, repeats included, each counted once; source = nvml or kmsg, the one"
    " that reported it first, dcgm where neither is read, or simulated; severity = fatal, warning"
    " or info, as the driver's line says or else NVIDIA's catalogue; beyond 32 different ones xid ="
    " other. Those that alerts count are reported as 0 from the start where a source exists."
    " gpu and uuid are empty while no source of GPUs has reported them.",
)  # fmt: skip
GPU_XID_LAST = Metric(
    "lockstep_gpu_xid_last_timestamp_seconds", _G, (*_PLACE, "xid", "severity"),
    "Unix time of the last such event; of what DCGM reported before the collector started, of the"
    " boot.",
)  # fmt: skip
GPU_FALLEN = Metric(
    "lockstep_gpu_fallen_off_bus_total", _C, _PLACE,
    "Times since boot that the driver lost the GPU on the PCI bus (XID 79, or a line of the kernel"
    " log without an XID).",
)  # fmt: skip
NVSWITCH_SXID_ERRORS = Metric(
    "lockstep_nvswitch_sxid_errors_total", _C, ("nvswitch", "sxid", "severity"),
    "SXID events since boot; nvswitch = its place on the PCI bus, severity = fatal or nonfatal.",
    unshown=Unshown.EVIDENCE,
)  # fmt: skip
KERNEL_EVENTS = Metric(
    "lockstep_kernel_events_total", _C, ("kind", "severity"),
    "Lines of the kernel log since boot that report trouble without an XID; kind as in the table"
    " of docs/reference/kernel-events.md, severity = fatal, warning or info by the line; fatal"
    " ones and warnings are reported as 0 from the start.",
)  # fmt: skip
KERNEL_EVENT_LAST = Metric(
    "lockstep_kernel_event_last_timestamp_seconds", _G, ("kind", "severity", "device"),
    "Unix time of the last such line; device = its place on the PCI bus, or its name.",
    unshown=Unshown.EVIDENCE,
)  # fmt: skip
KERNEL_LINES_UNREAD = Metric(
    "lockstep_kernel_lines_unread_total", _C, ("driver",),
    "Lines of the kernel log since the collector's start that no pattern reads: of nvidia, XIDs"
    " and SXIDs; of mlx5, efa and peermem, their warnings and errors.",
    unshown=Unshown.OWN_TROUBLE,
)  # fmt: skip
EVENTS_DROPPED = Metric(
    "lockstep_events_dropped_total", _C, ("source",),
    "Since the collector's start, of kmsg: records of the kernel log that were overwritten before"
    " they were read; of xid: events of more than 64 GPUs and switches; of nccl_inspector: lines"
    " that were too many to be read, or of too many operations.",
)  # fmt: skip


# Who uses a GPU.

GPU_ALLOCATION_INFO = Metric(
    "lockstep_gpu_allocation_info", _G,
    ("gpu", "uuid", "namespace", "pod", "pod_uid", "container", "claim", "run", "rank",
     "local_rank", "world_size", "slurm_job"),
    "Who holds the GPU or MIG device, to join on uuid: one series a container or process;"
    " what is unknown is empty.",
    unshown=Unshown.IDENTITY,
)  # fmt: skip
GPU_ALLOCATION_AGE = Metric(
    "lockstep_gpu_allocation_age_seconds", _G, (),
    "Age of the kubelet's answer behind the allocation; grows while the kubelet is down,"
    " which forgets its pods after 600 s.",
)  # fmt: skip
KUBELET_DEVICES = Metric(
    "lockstep_kubelet_devices", _G, ("resource",),
    "NVIDIA devices that the kubelet gave to containers, by extended resource or DRA driver.",
    unshown=Unshown.IDENTITY,
)  # fmt: skip
