"""What the page says about who uses a GPU. One row a metric."""

from lockstep.collector.contract.metrics.shape import Kind, Metric, Unshown

_G = Kind.GAUGE

GPU_ALLOCATION_INFO = Metric(
    "lockstep_gpu_allocation_info", _G,
    ("gpu", "uuid", "namespace", "pod", "pod_uid", "container", "claim", "run", "rank",
     "local_rank", "world_size", "slurm_job"),
    "Who holds the GPU or MIG device, to join on uuid: one series a container or process;"
    " what is not known is empty.",
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
