"""The simulated GPUs of emulated devices, and they say so."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.device import DeviceState
from lockstep.collector.contract.metric_rows.alerted import XID_ZEROS
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.contract.words import CLOCK_EVENT_REASONS
from lockstep.collector.contract.xid import describe
from lockstep.collector.sources.gpu.simulated import SimulatedReading

SOURCE = "simulated"
"""The source of an XID: neither nvml nor the kernel log."""
NOT_TOLD = ("",) * (len(m.GPU_INFO.labels) - 5)
"""Labels of the identity that a simulated GPU does not have."""


def collect(reading: SimulatedReading) -> Iterator[Sample]:
    """Every value of every GPU, as its state file tells it; XIDs also of those that are gone."""
    for state in reading.gpus:
        yield from _gpu(state)
        yield from _memory_and_links(state)
        who = (str(state["gpu"]), state["uuid"], "")
        for xid, severity in XID_ZEROS:
            if xid not in state["xid_errors"]:
                yield m.GPU_XID_ERRORS(0, *who, xid, SOURCE, severity)
    for state in reading.logged:
        yield from _xids(state)


def _gpu(state: DeviceState) -> Iterator[Sample]:
    gpu = (str(state["gpu"]), state["uuid"])
    yield m.GPU_INFO(1, *gpu, state["model"], state["driver"], "true", *NOT_TOLD)
    yield m.GPU_UP(1, *gpu)
    yield m.GPU_UTILIZATION(state["utilization_ratio"], *gpu)
    yield m.GPU_MEMORY_USED(state["memory_used_bytes"], *gpu)
    yield m.GPU_MEMORY_TOTAL(state["memory_total_bytes"], *gpu)
    yield m.GPU_TEMPERATURE(state["temperature_celsius"], *gpu, "gpu")
    yield m.GPU_TEMPERATURE_LIMIT(state["slowdown_limit_celsius"], *gpu, "slowdown")
    yield m.GPU_TEMPERATURE_LIMIT(state["shutdown_limit_celsius"], *gpu, "shutdown")
    yield m.GPU_POWER(state["power_watts"], *gpu)
    yield m.GPU_POWER_LIMIT(state["power_limit_watts"], *gpu, "enforced")
    yield m.GPU_POWER_LIMIT(state["power_limit_default_watts"], *gpu, "default")
    yield m.GPU_ENERGY(state["energy_joules"], *gpu)
    yield m.GPU_CLOCK(state["sm_clock_hertz"], *gpu, "sm")
    yield m.GPU_CLOCK_MAX(state["sm_clock_max_hertz"], *gpu, "sm")
    for reason in CLOCK_EVENT_REASONS:
        yield m.GPU_CLOCK_EVENT_ACTIVE(int(reason in state["clock_event_active"]), *gpu, reason)
        if reason in state["clock_event_seconds"]:
            yield m.GPU_CLOCK_EVENT_SECONDS(state["clock_event_seconds"][reason], *gpu, reason)


def _memory_and_links(state: DeviceState) -> Iterator[Sample]:
    gpu = (str(state["gpu"]), state["uuid"])
    for kind, count in state["ecc_errors"].items():
        yield m.GPU_ECC_ERRORS(count, *gpu, *kind.split("/"))
    for cause, rows in state["remapped_rows"].items():
        yield m.GPU_REMAPPED_ROWS(rows, *gpu, cause)
    yield m.GPU_ROW_REMAP_PENDING(state["row_remap_pending"], *gpu)
    yield m.GPU_ROW_REMAP_FAILED(state["row_remap_failed"], *gpu)
    yield m.GPU_PCIE_WIDTH(state["pcie_width"], *gpu)
    yield m.GPU_PCIE_WIDTH_MAX(state["pcie_width_max"], *gpu)
    yield m.GPU_PCIE_GENERATION(state["pcie_generation"], *gpu)
    yield m.GPU_PCIE_GENERATION_MAX(state["pcie_generation_max"], *gpu)
    yield m.GPU_PCIE_REPLAY(state["pcie_replay"], *gpu)
    for link, up in state["nvlink_up"].items():
        yield m.GPU_NVLINK_UP(up, *gpu, link)
    for kind, count in state["nvlink_errors"].items():
        yield m.GPU_NVLINK_ERRORS(count, *gpu, *kind.split("/"))


def _xids(state: DeviceState) -> Iterator[Sample]:
    """As of a real driver, but from its own mouth and without a place on the bus."""
    who = (str(state["gpu"]), state["uuid"], "")
    for xid, count in state["xid_errors"].items():
        severity = str(describe(int(xid)).severity)
        yield m.GPU_XID_ERRORS(count, *who, xid, SOURCE, severity)
        yield m.GPU_XID_LAST(state["xid_last"][xid], *who, xid, severity)
