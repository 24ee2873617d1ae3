"""GPUs, whichever source read them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Metric, Sample
from lockstep.collector.contract.words import CLOCK_EVENT_BITS, OTHER
from lockstep.collector.readings.gpu import (
    CLOCK_EVENTS,
    FABRIC_HEALTH,
    FABRIC_STATE,
    FABRIC_STATUS,
    FABRIC_SUMMARY,
    RAW,
    Gpu,
    GpuReading,
)
from lockstep.collector.samples.counters import Key
from lockstep.collector.sources.zero_series_folding import ZeroSeriesFolding

ACTIVITY = (
    m.GPU_UTILIZATION,
    m.GPU_COPY_UTILIZATION,
    m.GPU_ENGINE_ACTIVE,
    m.GPU_SM_ACTIVE,
    m.GPU_SM_OCCUPANCY,
    m.GPU_TENSOR_ACTIVE,
    m.GPU_DRAM_ACTIVE,
    m.GPU_FP64_ACTIVE,
    m.GPU_FP32_ACTIVE,
    m.GPU_FP16_ACTIVE,
)
"""Shares of time and of throughput, 0 to 1."""

MEMORY = (
    m.GPU_MEMORY_USED,
    m.GPU_MEMORY_FREE,
    m.GPU_MEMORY_RESERVED,
    m.GPU_MEMORY_TOTAL,
)
"""Bytes."""

TEMPERATURE = (
    m.GPU_TEMPERATURE,
    m.GPU_TEMPERATURE_MARGIN,
    m.GPU_TEMPERATURE_LIMIT,
    m.GPU_TEMPERATURE_LIMIT_MARGIN,
)
"""Temperatures, the margin to slowdown, and limits on both scales."""

POWER = (
    m.GPU_POWER,
    m.GPU_POWER_AVERAGE,
    m.GPU_POWER_LIMIT,
    m.GPU_ENERGY,
)
"""Watts and joules."""

HEALTH = (m.GPU_RECOVERY_ACTION, m.GPU_LAST_XID, m.GPU_PROCESSES, m.GPU_SAMPLE_INTERVAL)


def collect_up(gpu: Gpu) -> Iterator[Sample]:
    """Said of every GPU, whether or not it answers."""
    who = (str(gpu.index), gpu.uuid)
    yield m.GPU_UP(int(gpu.up), *who)
    if not gpu.is_mig:
        yield m.GPU_STALLED(int(gpu.stalled), *who)


CLOCKS = (m.GPU_CLOCK, m.GPU_CLOCK_MAX, m.GPU_PERFORMANCE_STATE, m.GPU_CLOCK_EVENT_SECONDS)


def collect_reasons(gpu: Gpu) -> Iterator[Sample]:
    """Every reason as 0 or 1, where the driver tells them."""
    bits = gpu.value(CLOCK_EVENTS)
    if bits is not None:
        for reason, bit in CLOCK_EVENT_BITS.items():
            yield m.GPU_CLOCK_EVENT_ACTIVE(
                int(bool(int(bits) & bit)), str(gpu.index), gpu.uuid, reason
            )


ECC = (
    m.GPU_ECC_ERRORS,
    m.GPU_ECC_LOCATION_ERRORS,
    m.GPU_ECC_MODE,
    m.GPU_SRAM_THRESHOLD,
    m.GPU_REMAPPED_ROWS,
    m.GPU_ROW_REMAP_PENDING,
    m.GPU_ROW_REMAP_FAILED,
    m.GPU_ROW_REMAP_BANKS,
    m.GPU_RETIRED_PAGES,
    m.GPU_RETIRED_PENDING,
)
"""Counts by type and place, and what waits for a reset."""


def _elsewhere(labels: str) -> str:
    """`type/counter/location` without the location."""
    return f"{labels.rpartition('/')[0]}/{OTHER}"


PCIE = (
    m.GPU_PCIE_WIDTH,
    m.GPU_PCIE_WIDTH_MAX,
    m.GPU_PCIE_GENERATION,
    m.GPU_PCIE_GENERATION_MAX,
    m.GPU_PCIE_REPLAY,
    m.GPU_PCIE_REPLAY_ROLLOVER,
    m.GPU_PCIE_ERRORS,
    m.GPU_PCIE_RECOVERY,
    m.GPU_PCIE_BYTES,
)
"""Width, generation, errors and traffic."""

NVLINK = (m.GPU_NVLINK_UP, m.GPU_NVLINK_BYTES, m.GPU_NVLINK_ERRORS, m.GPU_NVLINK_BER)

ALL = "all"
"""The link of a sum over all links, which is exported also at 0."""


def _another_link(labels: str) -> str:
    """`link/kind` without the link."""
    link, _, kind = labels.partition("/")
    return labels if link == ALL else f"{OTHER}/{kind}"


SUMMARY_HEALTHY = 1
"""NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY."""
STATES = ("not_supported", "not_started", "in_progress", "completed")
"""By nvmlGpuFabricState_t."""
_COMPLAINTS = ((0, 1), (2, 1), (4, 1), (6, 1), (14, 2))
"""(shift, value that complains) of the two-bit parts of the mask: degraded bandwidth, route
recovery, route unhealthy, access timeout recovery, Fabric Manager disconnected."""
_CONFIGURATION = (8, 0xF, 1)
"""(shift, width, highest good value) of the configuration's part."""


def collect_fabric(gpu: Gpu) -> Iterator[Sample]:
    """Whether the fabric is whole, where there is one."""
    state = gpu.value(FABRIC_STATE)
    if state is None or not 0 < state < len(STATES):  # 0: this GPU has no fabric
        return
    who = (str(gpu.index), gpu.uuid)
    for number, name in enumerate(STATES[1:], 1):
        yield m.GPU_FABRIC_STATE(int(state == number), *who, name)
    completed = state == len(STATES) - 1
    well = (
        completed
        and not gpu.value(FABRIC_STATUS)
        and healthy(int(gpu.value(FABRIC_HEALTH) or 0))
        and (gpu.value(FABRIC_SUMMARY) or 0) <= SUMMARY_HEALTHY
    )
    yield m.GPU_FABRIC_HEALTHY(int(well), *who)


def healthy(mask: int) -> bool:
    """Whether no part of a fabric health mask complains (nvml.h, NVML_GPU_FABRIC_HEALTH_MASK)."""
    shift, width, good = _CONFIGURATION
    if mask >> shift & width > good:
        return False
    return all(mask >> at & 0b11 != bad for at, bad in _COMPLAINTS)


_OWN = 2
"""Labels gpu and uuid come first."""


def collect_info(gpu: Gpu) -> Iterator[Sample]:
    """One info series, of a GPU or of a MIG device."""
    metric = m.MIG_INFO if gpu.is_mig else m.GPU_INFO
    info = {"simulated": "false"} | dict(gpu.info)
    words = (info.get(label, "") for label in metric.labels[_OWN:])
    yield metric(1, str(gpu.index), gpu.uuid, *words)


class Row(NamedTuple):
    """Values of one metric of a GPU by further label values, and their samples."""

    told: Mapping[str, float]
    samples: tuple[Sample, ...]


def rows(
    gpu: Gpu,
    metrics: Mapping[str, Metric],
    before: Mapping[str, Row],
    folded: Callable[[Gpu, str, Mapping[str, float]], Mapping[str, float]],
) -> dict[str, Row]:
    """A row for every one of these metrics that was told; the one of before if that is the same.

    `folded` gives what goes to the page of what a GPU told of a metric, by further label values.

    Without the check of `Metric.__call__`, which would be a third of a reading's cost: that every
    value has its labels is tested where the values are made.
    """
    who = (str(gpu.index), gpu.uuid)
    said: dict[str, Row] = {}
    for name, labelled in gpu.values.items():
        metric, row = metrics.get(name), before.get(name)
        if metric is None:
            continue
        if row is None or (row.told is not labelled and row.told != labelled):
            samples = (
                Sample(metric, (*who, *labels.split("/")) if labels else who, value)
                for labels, value in folded(gpu, name, labelled).items()
            )
            row = Row(labelled, tuple(samples))
        said[name] = row
    return said


SUBJECTS = (HEALTH, ACTIVITY, MEMORY, TEMPERATURE, POWER, CLOCKS, ECC, PCIE, NVLINK)
TOLD: dict[str, Metric] = {metric.name: metric for subject in SUBJECTS for metric in subject}
"""What goes to the page as it was told, by name."""
QUIET: dict[str, Callable[[str], str]] = {
    m.GPU_ECC_LOCATION_ERRORS.name: _elsewhere,
    m.GPU_NVLINK_ERRORS.name: _another_link,
}
"""What has a series for every place: its zeros share one, under the labels that this gives."""
MADE: tuple[Callable[[Gpu], Iterator[Sample]], ...] = (
    collect_info,
    collect_reasons,
    collect_fabric,
)
"""What else is said of a GPU that answers: of its info and of RAW alone."""


class Made(NamedTuple):
    """What MADE says of a GPU, and of what."""

    info: Mapping[str, str]
    raw: tuple[float | None, ...]
    samples: tuple[Sample, ...]


class Collect:
    """Samples of GPUs; those of a value that did not change are the very same as before.

    Most of what a GPU tells is read every thirty seconds, and what is the same object costs
    nothing more on its way to the page. Each feed has one of these for itself.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[int, str], dict[str, Row]] = {}
        self._made: dict[tuple[int, str], Made] = {}
        self._folding = ZeroSeriesFolding()

    def __call__(self, reading: GpuReading) -> Iterator[Sample]:
        """Everything that was told; of a GPU that does not answer, only that."""
        before, self._rows = self._rows, {}
        made, self._made = self._made, {}
        if reading.expected is not None:
            yield m.GPU_EXPECTED(reading.expected)
        if reading.present is not None:
            yield m.GPU_PRESENT(reading.present)
        for gpu in reading.gpus:
            yield from collect_up(gpu)
            if gpu.up:
                who = (gpu.index, gpu.uuid)
                said = self._rows[who] = rows(gpu, TOLD, before.get(who, {}), self._folded)
                for row in said.values():
                    yield from row.samples
                self._made[who] = one = _made(gpu, made.get(who))
                yield from one.samples

    def resume(self, counted: Iterable[Key]) -> None:
        """These counters had counted before a restart, their driver may have begun anew."""
        for name, labels in counted:
            if name in QUIET:
                self._folding.recall((*labels[:2], name), "/".join(labels[2:]))

    def _folded(self, gpu: Gpu, name: str, counts: Mapping[str, float]) -> Mapping[str, float]:
        together = QUIET.get(name)
        if together is None:
            return counts
        return self._folding.fold(
            (str(gpu.index), gpu.uuid, name), counts, lambda _: False, together
        )


def _made(gpu: Gpu, before: Made | None) -> Made:
    raw = tuple(gpu.value(word) for word in RAW)
    if before is not None and before.raw == raw and before.info == gpu.info:
        return before
    samples = tuple(sample for collect_more in MADE for sample in collect_more(gpu))
    return Made(dict(gpu.info), raw, samples)


def collect(reading: GpuReading) -> Iterator[Sample]:
    """The samples of one reading."""
    return Collect()(reading)
