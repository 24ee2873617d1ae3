"""Readings of GPUs from every source, in base units; a value that was not read is absent."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lockstep.collector.contract.metrics import GPU_LAST_XID, Metric
from lockstep.collector.readings.source import Rejected

CLOCK_EVENTS = "clock_events"
"""Raw value: bits of the clock-event (throttle) reasons that hold now (nvmlClocksEventReasons)."""
FABRIC_STATE = "fabric_state"
"""Raw value: 0 not supported, 1 not started, 2 in progress, 3 completed."""
FABRIC_STATUS = "fabric_status"
"""Raw value: NVML return code of the registration; it counts once the state is completed."""
FABRIC_HEALTH = "fabric_health"
"""Raw value: the fabric health mask (nvmlGpuFabricInfo_v2_t)."""
FABRIC_SUMMARY = "fabric_summary"
"""Raw value: 0 not told, 1 healthy, above that something complains (nvmlGpuFabricInfo_v3_t)."""
RAW = (CLOCK_EVENTS, FABRIC_STATE, FABRIC_STATUS, FABRIC_HEALTH, FABRIC_SUMMARY)

XID_TOTAL = "xid_total"
"""By XID: how often there was one since who tells it started. No metric: collector.sources.xid
counts them, where no source nearer to the driver reports XIDs."""
XID_WINDOW = "xid_window"
"""By XID: how often there was one within the last minutes. No metric, likewise."""
XID_VALUES = frozenset((GPU_LAST_XID.name, XID_TOTAL, XID_WINDOW))
"""What DCGM reports of XIDs, also of a GPU that fell off the bus. One that is empty means that
XIDs would be told and none was."""

PROCESSES = "processes"
"""Not of one machine alone, so never in a capture: by pid, or `pid/GPU instance` of a process on a
MIG device, 1 for each process that computes on the GPU."""

Values = Mapping[str, Mapping[str, float]]
"""By name of the metric (or a word of RAW), then by further label values joined with `/`."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU or MIG device.

    Attributes:
        index: The driver's number; of a MIG device its parent's.
        uuid: Empty while the driver tells none.
        up: It answers.
        stalled: A call to it does not return.
        info: Static words by label of GPU_INFO; of a MIG device by label of MIG_INFO.
    """

    index: int
    uuid: str
    up: bool = True
    stalled: bool = False
    info: Mapping[str, str] = field(default_factory=dict)
    values: Values = field(default_factory=dict)

    @property
    def is_mig(self) -> bool:
        """Whether this is a part of a GPU."""
        return "parent" in self.info

    def value(self, name: str) -> float | None:
        """The value that has no further labels, or None."""
        return self.values.get(name, {}).get("")


@dataclass(frozen=True, slots=True)
class GpuReading:
    """All GPUs that a source knows.

    Attributes:
        expected: NVIDIA GPUs on the PCI bus, or the most that the driver has counted, or None.
        present: GPUs that the driver counts, or None.
        stalled: The source itself stands still, not one GPU of several.
        unknown_names: Fields that it told and that nobody knows; None: it has no names.
    """

    gpus: tuple[Gpu, ...]
    rejected: tuple[Rejected, ...] = ()
    expected: int | None = None
    present: int | None = None
    stalled: bool = False
    unknown_names: frozenset[str] | None = None


class Telling:
    """Values on their way into a reading: what is None is left out."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, float]] = {}

    def tell(self, what: Metric | str, value: float | None, labels: str = "") -> None:
        """Put a value under its metric (or a word of RAW) and labels."""
        if value is not None:
            name = what if isinstance(what, str) else what.name
            self.values.setdefault(name, {})[labels] = value


# Who holds a GPU: what the kubelet gave away, and which processes use it.


@dataclass(frozen=True, slots=True)
class PodDevice:
    """One device that the kubelet gave to a container.

    Attributes:
        resource: The extended resource, or the driver of a claim.
        device: As the kubelet names it.
        claim: `namespace/name` of the DRA claim that it came by; empty = by device plugin.
    """

    namespace: str
    pod: str
    container: str
    resource: str
    device: str
    claim: str = ""


@dataclass(frozen=True, slots=True)
class PodDevices:
    """The kubelet's last answer, and its age in seconds; None = it never answered."""

    devices: tuple[PodDevice, ...] = ()
    age: float | None = None


@dataclass(frozen=True, slots=True)
class RankDevice:
    """What a living rank's ring says of its device; `gpu` is None and `uuid` empty on CPU.

    Attributes:
        pid: Its process as this node's process table has it; None = not visible here.
    """

    run: str
    rank: int
    local_rank: int
    world_size: int
    pid: int | None
    gpu: int | None
    uuid: str


@dataclass(frozen=True, slots=True)
class Holder:
    """A container or a process that holds a GPU or MIG device; what is unknown is empty."""

    gpu: str
    uuid: str
    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    container: str = ""
    claim: str = ""
    run: str = ""
    rank: str = ""
    local_rank: str = ""
    world_size: str = ""
    slurm_job: str = ""
