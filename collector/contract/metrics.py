"""Every metric on the collector's page: name, type, labels, help. One row a metric."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Sample(NamedTuple):
    """One value on its way to the page; `labels` are values in the order of the metric's labels."""

    metric: "Metric"
    labels: tuple[str, ...]
    value: float


class Kind(StrEnum):
    """Prometheus metric types in use."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Metric:
    """A family on the page. Units are base units and end the name; counters end in `_total`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    def __call__(self, value: float, *labels: str) -> Sample:
        """A sample of this metric.

        Raises:
            ValueError: The number of label values is not the number of labels.
        """
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} takes labels {self.labels}, got {labels}")
        return Sample(self, labels, value)


_C, _G = Kind.COUNTER, Kind.GAUGE
_GPU = ("gpu", "uuid")
_RANK = ("run", "rank")

# The monitor itself.
BUILD_INFO = Metric("lockstep_build_info", _G, ("version", "python"), "Version of this collector.")
SOURCE_UP = Metric(
    "lockstep_source_up", _G, ("source",), "1 if the source's last reading succeeded, else 0."
)
SOURCE_AVAILABLE = Metric(
    "lockstep_source_available", _G, ("source",), "1 if this node has what the source reads."
)
SOURCE_STALLED = Metric(
    "lockstep_source_stalled", _G, ("source",), "1 while a reading has overrun its deadline."
)
SOURCE_LAST_SUCCESS = Metric(
    "lockstep_source_last_success_timestamp_seconds", _G, ("source",),
    "Unix time of the source's last good reading.",
)  # fmt: skip
SOURCE_DURATION = Metric(
    "lockstep_source_collect_duration_seconds", _G, ("source",), "Duration of the last reading."
)
SOURCE_ERRORS = Metric(
    "lockstep_source_errors_total", _C, ("source", "reason"), "Failed or rejected readings."
)
SCRAPE_DURATION = Metric(
    "lockstep_scrape_duration_seconds", _G, (), "Time to render the previous page."
)
SCRAPE_SERIES = Metric("lockstep_scrape_series", _G, (), "Series on this page.")
SERIES_DROPPED = Metric(
    "lockstep_series_dropped_total", _C, ("family",), "Series dropped by the cardinality cap."
)
PROCESS_CPU = Metric(
    "lockstep_collector_cpu_seconds_total", _C, (), "CPU time of the collector's process."
)
PROCESS_RSS = Metric(
    "lockstep_collector_resident_memory_bytes", _G, (), "Resident memory of the collector."
)

# The host, or the emulated node's share of it.
NODE_INFO = Metric(
    "lockstep_node_info", _G, ("hostname", "kernel", "boot_id", "emulated"),
    "Identity of the node; emulated = true if several nodes share this machine.",
)  # fmt: skip
HOST_CPU = Metric("lockstep_host_cpu_seconds_total", _C, ("mode",), "/proc/stat, all processors.")
HOST_CPUS = Metric("lockstep_host_cpus", _G, (), "Processors online.")
HOST_LOAD = Metric("lockstep_load_average", _G, ("window",), "/proc/loadavg.")
HOST_MEMORY_TOTAL = Metric("lockstep_host_memory_total_bytes", _G, (), "/proc/meminfo MemTotal.")
HOST_MEMORY_AVAILABLE = Metric(
    "lockstep_host_memory_available_bytes", _G, (), "/proc/meminfo MemAvailable."
)
PRESSURE = Metric(
    "lockstep_pressure_stalled_seconds_total", _C, ("resource", "scope"), "/proc/pressure totals."
)
NET_BYTES = Metric("lockstep_net_bytes_total", _C, ("device", "direction"), "/proc/net/dev.")
NET_PACKETS = Metric("lockstep_net_packets_total", _C, ("device", "direction"), "/proc/net/dev.")
NET_ERRORS = Metric("lockstep_net_errors_total", _C, ("device", "direction"), "/proc/net/dev.")
NET_DROPS = Metric("lockstep_net_drops_total", _C, ("device", "direction"), "/proc/net/dev.")

# GPUs.
GPU_INFO = Metric(
    "lockstep_gpu_info", _G, (*_GPU, "model", "driver", "simulated"), "Identity of the GPU."
)
GPU_UP = Metric("lockstep_gpu_up", _G, _GPU, "1 if the GPU answers.")
GPU_UTILIZATION = Metric(
    "lockstep_gpu_utilization_ratio", _G, _GPU, "Share of time with a kernel running (DCGM 203)."
)
GPU_MEMORY_USED = Metric("lockstep_gpu_memory_used_bytes", _G, _GPU, "Memory in use (DCGM 252).")
GPU_MEMORY_TOTAL = Metric("lockstep_gpu_memory_total_bytes", _G, _GPU, "Memory (DCGM 250).")
GPU_TEMPERATURE = Metric(
    "lockstep_gpu_temperature_celsius", _G, (*_GPU, "sensor"), "Temperature (DCGM 150, 140)."
)
GPU_TEMPERATURE_LIMIT = Metric(
    "lockstep_gpu_temperature_limit_celsius", _G, (*_GPU, "limit"), "Slowdown and shutdown limits."
)
GPU_POWER = Metric("lockstep_gpu_power_watts", _G, _GPU, "Board power (NVML F186, DCGM 157).")
GPU_POWER_LIMIT = Metric(
    "lockstep_gpu_power_limit_watts", _G, (*_GPU, "kind"), "Power limits (NVML F187 to F190)."
)
GPU_ENERGY = Metric("lockstep_gpu_energy_joules_total", _C, _GPU, "Energy (NVML F83, DCGM 156).")
GPU_CLOCK = Metric("lockstep_gpu_clock_hertz", _G, (*_GPU, "domain"), "Clock (DCGM 100, 101).")
GPU_CLOCK_MAX = Metric("lockstep_gpu_clock_max_hertz", _G, (*_GPU, "domain"), "Maximum clock.")
GPU_CLOCK_EVENT_ACTIVE = Metric(
    "lockstep_gpu_clock_event_active", _G, (*_GPU, "reason"), "1 while throttled for this reason."
)
GPU_CLOCK_EVENT_SECONDS = Metric(
    "lockstep_gpu_clock_event_seconds_total", _C, (*_GPU, "reason"),
    "Time throttled for this reason (NVML F74 to F81, F269 to F271).",
)  # fmt: skip

# Training, from the rank's ring; at most 45 series a rank with all six groups.
RANK_INFO = Metric(
    "lockstep_rank_info", _G,
    (*_RANK, "attempt", "local_rank", "world_size", "dp", "pp", "tp", "ep", "cp", "gpu", "uuid",
     "node", "pid"),
    "Topology of the rank; gpu and uuid are empty on CPU.",
)  # fmt: skip
RANK_UP = Metric(
    "lockstep_rank_up", _G, _RANK, "1 if the rank's process lives; a gone rank keeps 0 for 600 s."
)
TRAIN_STEPS = Metric(
    "lockstep_train_steps_total", _C, _RANK,
    "Steps completed = number of the next step (a resumed run starts at the resumed step).",
)  # fmt: skip
TRAIN_PHASE = Metric(
    "lockstep_train_phase_seconds_total",
    _C,
    (*_RANK, "phase"),
    "Wall time by phase of the step; the phases add up to the whole step.",
)
TRAIN_OWN = Metric(
    "lockstep_train_own_seconds_total", _C, _RANK,
    "Wall time of steps outside blocking collectives: what the rank itself took.",
)  # fmt: skip
TRAIN_CPU = Metric(
    "lockstep_train_cpu_seconds_total", _C, _RANK, "CPU time of the training thread in steps."
)
TRAIN_COLLECTIVE = Metric(
    "lockstep_train_collective_seconds_total", _C, (*_RANK, "group"),
    "Time from arrival at collectives to their completion: waiting and transfer.",
)  # fmt: skip
TRAIN_COLLECTIVES = Metric(
    "lockstep_train_collectives_total", _C, (*_RANK, "group"), "Collectives completed."
)
TRAIN_ENQUEUED = Metric(
    "lockstep_train_enqueued_sequence", _G, (*_RANK, "group"),
    "Sequence number of the last collective the rank arrived at; counts from 1.",
)  # fmt: skip
TRAIN_COMPLETED = Metric(
    "lockstep_train_completed_sequence", _G, (*_RANK, "group"),
    "Sequence number of the last collective the rank completed.",
)  # fmt: skip
TRAIN_SAMPLES = Metric("lockstep_train_samples_total", _C, _RANK, "Samples trained on.")
TRAIN_TOKENS = Metric("lockstep_train_tokens_total", _C, _RANK, "Tokens trained on.")
TRAIN_FLOPS = Metric(
    "lockstep_train_model_flops_total", _C, _RANK, "Model FLOPs by Megatron's formula."
)
TRAIN_LOSS = Metric("lockstep_train_loss", _G, _RANK, "Training loss of the last step, nats.")
TRAIN_OPEN_OP_AGE = Metric(
    "lockstep_train_open_operation_age_seconds", _G, (*_RANK, "op", "group"),
    "Age of the collective the rank is inside now; absent when it is in none.",
)  # fmt: skip
TRAIN_HEARTBEAT_AGE = Metric(
    "lockstep_train_heartbeat_age_seconds", _G, _RANK,
    "Since the rank's helper thread last ran: over 3 s = the process is frozen.",
)  # fmt: skip
TRAIN_PROGRESS_AGE = Metric(
    "lockstep_train_progress_age_seconds", _G, _RANK,
    "Since the training thread last began or ended anything: old with a fresh heartbeat = stuck.",
)  # fmt: skip
RANK_RUN_QUEUE = Metric(
    "lockstep_rank_run_queue_seconds_total", _C, _RANK,
    "Time the rank's main thread was ready to run and had no processor (/proc/PID/schedstat).",
)  # fmt: skip
RANK_THROTTLED = Metric(
    "lockstep_rank_cpu_throttled_seconds_total", _C, _RANK,
    "Time the rank's cgroup was held back by its CPU quota (cpu.stat).",
)  # fmt: skip

METRICS: dict[str, Metric] = {
    value.name: value for value in list(globals().values()) if isinstance(value, Metric)
}
"""Every metric by name, in the order of the page."""

MAX_SERIES_PER_RANK = 45
RANK_GONE_SECONDS = 600.0
"""How long a rank that is gone keeps its last sequences on the page (DESIGN 3.5)."""
