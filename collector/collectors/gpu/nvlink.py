"""NVLink, and the GPU's place in the fabric that it spans."""

from collections.abc import Callable, Iterator

from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.gpu_reading import (
    FABRIC_HEALTH,
    FABRIC_STATE,
    FABRIC_STATUS,
    FABRIC_SUMMARY,
    Gpu,
)
from collector.zero_series_folding import OTHER

METRICS = (m.GPU_NVLINK_UP, m.GPU_NVLINK_BYTES, m.GPU_NVLINK_ERRORS, m.GPU_NVLINK_BER)

ALL = "all"
"""The link of a sum over all links, which is told also at 0."""


def _another_link(labels: str) -> str:
    """`link/kind` without the link."""
    link, _, kind = labels.partition("/")
    return labels if link == ALL else f"{OTHER}/{kind}"


QUIET: dict[str, Callable[[str], str]] = {m.GPU_NVLINK_ERRORS.name: _another_link}
"""Under what labels is told what never counted, by name of the metric."""

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
