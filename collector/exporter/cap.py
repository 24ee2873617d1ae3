"""The cap on series: which ones give way when a page has too many."""

from collections import Counter
from collections.abc import Sequence

from collector.contract.metrics import Sample

FIRST_TO_GO: tuple[str, ...] = (
    "lockstep_net_packets_",
    "lockstep_net_mtu_",
    "lockstep_net_phy_",
    "lockstep_net_pci_",
    "lockstep_net_errors_",
    "lockstep_net_drops_",
    "lockstep_net_speed_",
    "lockstep_net_bytes_",
    "lockstep_disk_",
    "lockstep_softnet_",
    "lockstep_tcp_",
    "lockstep_load_average",
    "lockstep_memory_",
    "lockstep_numa_",
    "lockstep_host_",
    "lockstep_pressure_",
    "lockstep_boot_",
    "lockstep_cpu_",
    "lockstep_oom_",
    "lockstep_collector_",
    "lockstep_kubelet_",
    "lockstep_net_",
    "lockstep_rdma_",
    "lockstep_ib_",
    "lockstep_nccl_collective",
    "lockstep_nccl_rank_",
    "lockstep_nccl_",
    "lockstep_gpu_memory_",
    "lockstep_gpu_temperature_limit_",
    "lockstep_gpu_energy_",
    "lockstep_gpu_utilization_",
    "lockstep_gpu_",
    "lockstep_clock_",
    "lockstep_gpu_xid_",
    "lockstep_gpu_fallen_",
    "lockstep_gpu_allocation_",
    "lockstep_train_model_flops_",
    "lockstep_train_samples_",
    "lockstep_train_tokens_",
    "lockstep_train_",
    "lockstep_",
)
"""Prefixes in the order in which series give way to the cap: what verdicts need goes last."""


def capped(samples: Sequence[Sample], cap: int) -> tuple[list[Sample], Counter[str]]:
    """At most `cap` samples, and how many of each family were dropped.

    Families go in the order of FIRST_TO_GO; inside one step of that order, later samples first.
    A histogram goes whole: without one of its buckets it would tell something else.
    """
    excess = len(samples) - cap
    if excess <= 0:
        return list(samples), Counter()
    place = {sample.metric.name: _place(sample.metric.name) for sample in samples}
    by_need = sorted(range(len(samples)), key=lambda i: (place[samples[i].metric.name], -i))
    gone = set(by_need[:excess])
    broken = {_histogram(samples[index]) for index in gone} - {None}
    if broken:
        gone |= {index for index, sample in enumerate(samples) if _histogram(sample) in broken}
    dropped = Counter(samples[index].metric.family for index in gone)
    return [sample for index, sample in enumerate(samples) if index not in gone], dropped


def _histogram(sample: Sample) -> tuple[str, tuple[str, ...]] | None:
    """Family and labels of the histogram that the sample is a part of."""
    metric, labels, _ = sample
    if metric.family == metric.name:
        return None
    return metric.family, labels[:-1] if metric.labels[-1] == "le" else labels


def _place(name: str) -> int:
    """The place of the longest prefix that fits."""
    fitting = [prefix for prefix in FIRST_TO_GO if name.startswith(prefix)]
    return FIRST_TO_GO.index(max(fitting, key=len))
