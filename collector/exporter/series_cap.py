"""The cap on series: which ones give way when a page has too many."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

from lockstep.collector.contract.metrics import Sample

FIRST_TO_GO: tuple[str, ...] = (
    # Repeated for each link, port, priority, location or size.
    "lockstep_gpu_nvlink_bit_error_",
    "lockstep_gpu_nvlink_up",
    "lockstep_net_packets_",
    "lockstep_net_mtu_",
    "lockstep_net_phy_",
    "lockstep_net_pci_",
    "lockstep_net_pfc_pause_total",
    "lockstep_gpu_ecc_location_",
    "lockstep_gpu_row_remap_banks",
    "lockstep_rdma_",
    "lockstep_ib_port_packets_",
    "lockstep_gpu_temperature_limit_",
    "lockstep_gpu_nvlink_errors_",
    "lockstep_nccl_collective",
    "lockstep_net_errors_",
    "lockstep_net_drops_",
    "lockstep_net_speed_",
    "lockstep_net_bytes_",
    "lockstep_net_",
    "lockstep_ib_",
    "lockstep_nccl_",
    "lockstep_nccl_rank_",
    # A few of a GPU that no verdict needs.
    "lockstep_gpu_memory_",
    "lockstep_gpu_energy_",
    "lockstep_gpu_utilization_",
    # Of the host, once each.
    "lockstep_kubelet_",
    "lockstep_kernel_lines_",
    "lockstep_collector_",
    "lockstep_boot_",
    "lockstep_numa_",
    "lockstep_disk_",
    "lockstep_softnet_",
    "lockstep_tcp_",
    "lockstep_load_average",
    "lockstep_memory_",
    "lockstep_host_",
    "lockstep_pressure_",
    "lockstep_cpu_",
    "lockstep_oom_",
    # What verdicts need.
    "lockstep_gpu_",
    "lockstep_clock_",
    "lockstep_gpu_xid_",
    "lockstep_gpu_fallen_",
    "lockstep_kernel_event",
    "lockstep_gpu_allocation_",
    "lockstep_train_value",
    "lockstep_train_model_flops_",
    "lockstep_train_samples_",
    "lockstep_train_tokens_",
    "lockstep_train_",
    "lockstep_",
)
"""Prefixes in the order in which series give way to the cap: what is there once for each link goes
first, the host and what verdicts need last."""
LINK = "link"


def capped(samples: Sequence[Sample], cap: int) -> tuple[list[Sample], Counter[str]]:
    """At most `cap` of one page's samples, and how many of each family were dropped, as `Cap`."""
    kept, dropped = Cap().kept([samples], cap)
    return [sample for part in kept for sample in part], dropped


_Whole = tuple[str, tuple[str, ...]]
"""A family and the labels of what stays or goes together."""


class Cap:
    """Keeps pages to a number of series.

    Families go in the order of FIRST_TO_GO; inside one step of that order, later samples first.
    A histogram goes whole, and so do the links of a GPU: without one of its buckets it would tell
    something else, and a GPU without one of its links would have lost it. Of a reading that is on
    the page before, too, nothing is worked out again, and what is kept of it is the very same as
    before.
    """

    def __init__(self) -> None:
        self._known: dict[int, _Part] = {}

    def kept(
        self, readings: Sequence[Sequence[Sample]], cap: int
    ) -> tuple[list[Sequence[Sample]], Counter[str]]:
        """At most `cap` samples, reading by reading, and how many of each family were dropped."""
        excess = sum(map(len, readings)) - cap
        if excess <= 0:
            return list(readings), Counter()
        parts = self._parts(readings)
        threshold = 0
        while (those := sum(part.number(threshold) for part in parts)) <= excess:
            excess -= those
            threshold += 1
            if threshold == len(FIRST_TO_GO):
                break
        for part in reversed(parts):
            last = min(excess, part.number(threshold))
            part.cut(threshold, last)
            excess -= last
        broken = frozenset().union(*(part.broken for part in parts))
        dropped: Counter[str] = Counter()
        kept: list[Sequence[Sample]] = []
        for part in parts:
            samples, gone = part.without(broken)
            kept.append(samples)
            dropped += gone
        return kept, dropped

    def _parts(self, readings: Sequence[Sequence[Sample]]) -> list["_Part"]:
        known = self._known
        parts = [known.get(id(samples)) or _Part(samples) for samples in readings]
        # The old ones are forgotten; those of this page are alive, so that no id is used twice.
        self._known = {id(part.samples): part for part in parts}
        return parts


class _Part:
    """One reading: its samples by their place in FIRST_TO_GO, and what was cut of it last."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = samples
        self._by_place: dict[int, list[int]] = {}
        for at, sample in enumerate(samples):
            self._by_place.setdefault(_place(sample.metric.name), []).append(at)
        self.broken: frozenset[_Whole] = frozenset()
        self._cut = (0, 0)
        self._gone: set[int] = set()
        self._kept: tuple[frozenset[_Whole], Sequence[Sample], Counter[str]] | None = None

    def number(self, position: int) -> int:
        """Of samples at that place."""
        return len(self._by_place.get(position, ()))

    def cut(self, threshold: int, last: int) -> None:
        """Without the places before the threshold, and so many of the last ones at it."""
        if self._cut == (threshold, last):
            return
        self._cut, self._kept = (threshold, last), None
        self._gone = {
            at for position, those in self._by_place.items() if position < threshold for at in those
        }
        if last:
            self._gone.update(self._by_place[threshold][-last:])
        families = {_whole(self.samples[at]) for at in self._gone}
        self.broken = frozenset(family for family in families if family is not None)

    def without(self, broken: frozenset[_Whole]) -> tuple[Sequence[Sample], Counter[str]]:
        """What the cut and what is broken leave, and how many of each family are gone."""
        if self._kept is None or self._kept[0] != broken:
            gone = self._gone
            if broken:
                gone = gone | {
                    at for at, sample in enumerate(self.samples) if _whole(sample) in broken
                }
            dropped = Counter(self.samples[at].metric.family for at in gone)
            kept = self.samples
            if gone:
                kept = tuple(one for at, one in enumerate(self.samples) if at not in gone)
            self._kept = (broken, kept, dropped)
        return self._kept[1:]


def _whole(sample: Sample) -> _Whole | None:
    """What the sample is a part of: a histogram, or the links of a GPU; None = it stands alone."""
    metric, labels, _ = sample
    if metric.family != metric.name:
        return metric.family, labels[:-1] if metric.labels[-1] == "le" else labels
    if LINK in metric.labels:
        return metric.family, labels[: metric.labels.index(LINK)]
    return None


@cache
def _place(name: str) -> int:
    """The place of the longest prefix that fits; the contract has a few hundred names."""
    fitting = [prefix for prefix in FIRST_TO_GO if name.startswith(prefix)]
    return FIRST_TO_GO.index(max(fitting, key=len))
