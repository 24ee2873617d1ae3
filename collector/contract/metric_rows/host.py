"""What the page says about the host, or the emulated node's share of it. One row a metric."""

from lockstep.collector.contract.metric_rows import ranges
from lockstep.collector.contract.metric_rows.shape import Kind, Metric, Unshown

_C, _G = Kind.COUNTER, Kind.GAUGE

NODE_INFO = Metric(
    "lockstep_node_info", _G, ("hostname", "kernel", "boot_id", "emulated"),
    "Identity of the node; emulated = true if several nodes share this machine.",
    unshown=Unshown.IDENTITY,
)  # fmt: skip
BOOT_INFO = Metric(
    "lockstep_boot_info", _G, ("boot_id",), "Identity of this boot.",
    unshown=Unshown.IDENTITY,
)  # fmt: skip
BOOT_TIME = Metric(
    "lockstep_boot_time_seconds", _G, (), "Unix time of the boot (/proc/stat).", within=ranges.TIME
)
CLOCK_OFFSET = Metric(
    "lockstep_clock_offset_seconds", _G, (),
    "What the kernel has left to correct of the wall clock (adjtimex).",
    unshown=Unshown.HOST_DETAIL,
    within=ranges.CORRECTION,
)  # fmt: skip
CLOCK_MAX_ERROR = Metric(
    "lockstep_clock_max_error_seconds",
    _G,
    (),
    "The kernel's bound on the clock's error (adjtimex).",
)
CLOCK_SYNCHRONIZED = Metric(
    "lockstep_clock_synchronized",
    _G,
    (),
    "1 while something keeps the wall clock right (adjtimex).",
    within=ranges.FLAG,
)
HOST_CPU = Metric("lockstep_host_cpu_seconds_total", _C, ("mode",), "/proc/stat, all processors.")
HOST_CPUS = Metric("lockstep_host_cpus", _G, (), "Processors online.")
HOST_LOAD = Metric(
    "lockstep_load_average", _G, ("window",), "/proc/loadavg.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
HOST_MEMORY_TOTAL = Metric("lockstep_host_memory_total_bytes", _G, (), "/proc/meminfo MemTotal.")
HOST_MEMORY_AVAILABLE = Metric(
    "lockstep_host_memory_available_bytes", _G, (), "/proc/meminfo MemAvailable."
)
PRESSURE = Metric(
    "lockstep_pressure_stalled_seconds_total", _C, ("resource", "scope"), "/proc/pressure totals."
)
MEMORY_FREE = Metric(
    "lockstep_memory_free_bytes", _G, (), "/proc/meminfo MemFree.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
MEMORY_CACHED = Metric(
    "lockstep_memory_cached_bytes", _G, (), "/proc/meminfo Cached.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
MEMORY_SHARED = Metric(
    "lockstep_memory_shared_bytes", _G, (), "/proc/meminfo Shmem: /dev/shm and shared memory."
)
MEMORY_DIRTY = Metric(
    "lockstep_memory_dirty_bytes", _G, (), "/proc/meminfo Dirty: waits to be written to disk."
)
MEMORY_WRITEBACK = Metric(
    "lockstep_memory_writeback_bytes", _G, (), "/proc/meminfo Writeback.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
MEMORY_SWAP = Metric(
    "lockstep_memory_swap_bytes", _G, (), "/proc/meminfo SwapTotal.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
MEMORY_SWAP_FREE = Metric(
    "lockstep_memory_swap_free_bytes", _G, (), "/proc/meminfo SwapFree.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
OOM_KILLS = Metric(
    "lockstep_oom_kills_total", _C, (), "Processes killed for lack of memory (/proc/vmstat)."
)
NUMA_MISSES = Metric(
    "lockstep_numa_misses_total", _C, (),
    "Pages that were wanted on another NUMA node than they were found on (/proc/vmstat).",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
CPU_THROTTLED = Metric(
    "lockstep_cpu_throttled_seconds_total", _C, (),
    "Time CPU quotas held groups back, over the node's cgroups, from the collector's start on"
    " (cpu.stat).",
)  # fmt: skip
CPU_THERMAL_THROTTLES = Metric(
    "lockstep_cpu_thermal_throttles_total", _C, ("level",),
    "Times that heat held a core, or a package, back, summed over them (sysfs thermal_throttle).",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
CPU_THERMAL_THROTTLED = Metric(
    "lockstep_cpu_thermal_throttled_seconds_total", _C, ("level",),
    "How long it did, summed over cores or packages (sysfs thermal_throttle).",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
HOST_TEMPERATURE = Metric(
    "lockstep_host_temperature_celsius", _G, ("zone", "type"),
    "/sys/class/thermal, and /sys/class/hwmon without thermal zones and single cores.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
DISK_BYTES = Metric("lockstep_disk_bytes_total", _C, ("device", "direction"), "/proc/diskstats.")
DISK_OPERATIONS = Metric(
    "lockstep_disk_operations_total", _C, ("device", "direction"), "/proc/diskstats.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
DISK_TIME = Metric(
    "lockstep_disk_time_seconds_total", _C, ("device", "direction"),
    "Time of requests, summed over them, queueing included (/proc/diskstats).",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
DISK_BUSY = Metric(
    "lockstep_disk_busy_seconds_total", _C, ("device",),
    "Time with at least one request under way (/proc/diskstats).",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
DISK_IN_FLIGHT = Metric(
    "lockstep_disk_operations_in_flight", _G, ("device",), "Requests under way (/proc/diskstats).",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
SOFTNET_PROCESSED = Metric(
    "lockstep_softnet_processed_total", _C, (), "Packets received (/proc/net/softnet_stat).",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
SOFTNET_DROPPED = Metric(
    "lockstep_softnet_dropped_total", _C, (), "Packets dropped: a processor's backlog was full.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
SOFTNET_SQUEEZED = Metric(
    "lockstep_softnet_time_squeezed_total", _C, (), "Rounds that ended with packets left over.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
TCP_SEGMENTS = Metric("lockstep_tcp_segments_total", _C, ("direction",), "/proc/net/snmp.")
TCP_RETRANSMITTED = Metric(
    "lockstep_tcp_retransmitted_segments_total", _C, (), "/proc/net/snmp RetransSegs."
)
TCP_SYN_RETRANSMITS = Metric(
    "lockstep_tcp_syn_retransmits_total", _C, (), "/proc/net/netstat TCPSynRetrans.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
TCP_TIMEOUTS = Metric(
    "lockstep_tcp_timeouts_total", _C, (), "/proc/net/netstat TCPTimeouts.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
