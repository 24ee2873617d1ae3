"""The cap on series: which ones give way when a page has too many."""

from collections import Counter
from collections.abc import Sequence

from collector.contract.metrics import Sample

FIRST_TO_GO: tuple[str, ...] = (
    "lockstep_net_",
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
    "lockstep_gpu_memory_",
    "lockstep_gpu_temperature_limit_",
    "lockstep_gpu_energy_",
    "lockstep_gpu_utilization_",
    "lockstep_gpu_",
    "lockstep_clock_",
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
    """
    excess = len(samples) - cap
    if excess <= 0:
        return list(samples), Counter()
    place = {sample.metric.name: _place(sample.metric.name) for sample in samples}
    by_need = sorted(range(len(samples)), key=lambda i: (place[samples[i].metric.name], -i))
    gone = set(by_need[:excess])
    dropped = Counter(samples[index].metric.name for index in gone)
    return [sample for index, sample in enumerate(samples) if index not in gone], dropped


def _place(name: str) -> int:
    return next(place for place, prefix in enumerate(FIRST_TO_GO) if name.startswith(prefix))
