"""What the page says about GPUs. One row a metric; HELP names where the value comes from.

F is an NVML field id (nvmlDeviceGetFieldValues), D a DCGM field id. A MIG device has its own
`uuid` and its parent's `gpu`.
"""

from lockstep.collector.contract.metric_rows import ranges
from lockstep.collector.contract.metric_rows.shape import Kind, Metric, Unshown

_C, _G = Kind.COUNTER, Kind.GAUGE
_GPU = ("gpu", "uuid")

GPU_INFO = Metric(
    "lockstep_gpu_info", _G,
    (*_GPU, "model", "driver", "simulated", "serial", "pci_bus_id", "vbios", "firmware", "cuda",
     "mig_mode", "numa", "minor"),
    "Identity of the GPU; firmware = GSP; what the driver does not report is empty.",
)  # fmt: skip
MIG_INFO = Metric(
    "lockstep_gpu_mig_info", _G,
    (*_GPU, "parent", "profile", "gpu_instance", "compute_instance"),
    "Identity of a MIG device; parent = uuid of the GPU it is a part of.",
    unshown=Unshown.IDENTITY,
)  # fmt: skip
GPU_UP = Metric(
    "lockstep_gpu_up",
    _G,
    _GPU,
    "1 if the GPU answers.",
    unshown=Unshown.EVIDENCE,
    within=ranges.FLAG,
)
GPU_STALLED = Metric(
    "lockstep_gpu_stalled", _G, _GPU, "1 while a call to the GPU's driver does not return.",
    unshown=Unshown.EVIDENCE,
    within=ranges.FLAG,
)  # fmt: skip
GPU_EXPECTED = Metric(
    "lockstep_gpu_expected", _G, (),
    "NVIDIA GPUs on the PCI bus (sysfs), or the most that the driver has counted.",
)  # fmt: skip
GPU_PRESENT = Metric("lockstep_gpu_present", _G, (), "GPUs that the driver counts.")
RECOVERY_ACTIONS = {
    0: "nothing", 1: "GPU reset", 2: "node reboot", 3: "drain peers", 4: "drain and reset",
    5: "recover IMEX domain", 6: "bus reset", 7: "system reboot",
}  # fmt: skip
"""Values of the recovery action."""
GPU_RECOVERY_ACTION = Metric(
    "lockstep_gpu_recovery_action", _G, _GPU,
    "What the driver wants (F230, D1523): "
    + ", ".join(f"{value} {words}" for value, words in RECOVERY_ACTIONS.items()) + ".",
    within=ranges.RECOVERY_ACTION,
)  # fmt: skip
GPU_LAST_XID = Metric(
    "lockstep_gpu_last_xid", _G, _GPU,
    "The last XID that DCGM reported, 0 = none (D230); where neither NVML nor the kernel's log is"
    " read, a new value counts as an XID.",
    unshown=Unshown.GPU_DETAIL, within=ranges.XID,
)  # fmt: skip
GPU_PROCESSES = Metric(
    "lockstep_gpu_processes", _G, _GPU, "Compute processes on the GPU.",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip
GPU_SAMPLE_INTERVAL = Metric(
    "lockstep_gpu_sample_interval_seconds", _G, _GPU, "Time between the last two readings.",
    unshown=Unshown.STANDING,
)  # fmt: skip

GPU_UTILIZATION = Metric(
    "lockstep_gpu_utilization_ratio",
    _G,
    _GPU,
    "Share of time with a kernel running (DCGM 203, 1613).",
)
GPU_COPY_UTILIZATION = Metric(
    "lockstep_gpu_memory_copy_utilization_ratio", _G, _GPU,
    "Share of time in which memory was read or written (D204).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip
GPU_ENGINE_ACTIVE = Metric(
    "lockstep_gpu_graphics_engine_active_ratio", _G, _GPU, "Graphics or compute (GPM 1, D1001).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip
GPU_SM_ACTIVE = Metric(
    "lockstep_gpu_sm_active_ratio", _G, _GPU, "Busy SMs (GPM 2, D1002).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip
GPU_SM_OCCUPANCY = Metric(
    "lockstep_gpu_sm_occupancy_ratio", _G, _GPU, "Resident warps of the possible (GPM 3, D1003).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip
GPU_TENSOR_ACTIVE = Metric(
    "lockstep_gpu_tensor_active_ratio", _G, _GPU, "Tensor pipes (GPM 5, D1004).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip
GPU_DRAM_ACTIVE = Metric(
    "lockstep_gpu_dram_active_ratio", _G, _GPU, "Memory bandwidth of the possible (GPM 10, D1005).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip
GPU_FP64_ACTIVE = Metric(
    "lockstep_gpu_fp64_active_ratio", _G, _GPU, "FP64 (GPM 11, D1006).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip
GPU_FP32_ACTIVE = Metric(
    "lockstep_gpu_fp32_active_ratio", _G, _GPU, "FP32 (GPM 12, D1007).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip
GPU_FP16_ACTIVE = Metric(
    "lockstep_gpu_fp16_active_ratio", _G, _GPU, "FP16 (GPM 13, D1008).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip

GPU_MEMORY_USED = Metric(
    "lockstep_gpu_memory_used_bytes", _G, _GPU, "Memory in use (DCGM 252).", within=ranges.GPU_BYTES
)
GPU_MEMORY_FREE = Metric(
    "lockstep_gpu_memory_free_bytes", _G, _GPU, "Free memory (D251).",
    unshown=Unshown.STANDING,
    within=ranges.GPU_BYTES,
)  # fmt: skip
GPU_MEMORY_RESERVED = Metric(
    "lockstep_gpu_memory_reserved_bytes", _G, _GPU, "Memory of the driver and firmware (D253).",
    unshown=Unshown.STANDING,
    within=ranges.GPU_BYTES,
)  # fmt: skip
GPU_MEMORY_TOTAL = Metric(
    "lockstep_gpu_memory_total_bytes", _G, _GPU, "Memory (DCGM 250).",
    unshown=Unshown.STANDING,
    within=ranges.GPU_BYTES,
)  # fmt: skip

GPU_TEMPERATURE = Metric(
    "lockstep_gpu_temperature_celsius", _G, (*_GPU, "sensor"), "Temperature (DCGM 150, 140)."
)
GPU_TEMPERATURE_MARGIN = Metric(
    "lockstep_gpu_temperature_margin_celsius", _G, _GPU,
    "Distance to the nearest slowdown (nvmlDeviceGetMarginTemperature, D153).",
    within=ranges.CELSIUS_MARGIN,
)  # fmt: skip
GPU_TEMPERATURE_LIMIT = Metric(
    "lockstep_gpu_temperature_limit_celsius", _G, (*_GPU, "limit"), "Slowdown and shutdown limits.",
    unshown=Unshown.STANDING,
)  # fmt: skip
GPU_TEMPERATURE_LIMIT_MARGIN = Metric(
    "lockstep_gpu_temperature_limit_margin_celsius", _G, (*_GPU, "limit"),
    "Limits on the scale of the margin, T.Limit (F193 to F196).",
    unshown=Unshown.STANDING,
    within=ranges.CELSIUS_MARGIN,
)  # fmt: skip

GPU_POWER = Metric(
    "lockstep_gpu_power_watts", _G, _GPU,
    "Board power (NVML F186, DCGM 157; the average where only that is reported).",
)  # fmt: skip
GPU_POWER_AVERAGE = Metric(
    "lockstep_gpu_power_average_watts", _G, _GPU,
    "Board power as the driver averages it over a second (F185, D155).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip
GPU_POWER_LIMIT = Metric(
    "lockstep_gpu_power_limit_watts", _G, (*_GPU, "kind"),
    "Power limits (NVML F187 to F190). Where DCGM reports only the requested limit, it stands for"
    " the enforced one too.",
    unshown=Unshown.STANDING,
)  # fmt: skip
GPU_ENERGY = Metric(
    "lockstep_gpu_energy_joules_total", _C, _GPU, "Energy (NVML F83, DCGM 156).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip

GPU_CLOCK = Metric("lockstep_gpu_clock_hertz", _G, (*_GPU, "domain"), "Clock (DCGM 100, 101).")
GPU_CLOCK_MAX = Metric(
    "lockstep_gpu_clock_max_hertz", _G, (*_GPU, "domain"), "Maximum clock.",
    unshown=Unshown.STANDING,
)  # fmt: skip
GPU_PERFORMANCE_STATE = Metric(
    "lockstep_gpu_performance_state", _G, _GPU, "P-state: 0 fastest to 15 (D190).",
    unshown=Unshown.GPU_DETAIL,
    within=ranges.PERFORMANCE_STATE,
)  # fmt: skip
GPU_CLOCK_EVENT_ACTIVE = Metric(
    "lockstep_gpu_clock_event_active",
    _G,
    (*_GPU, "reason"),
    "1 while throttled for this reason.",
    within=ranges.FLAG,
)
GPU_CLOCK_EVENT_SECONDS = Metric(
    "lockstep_gpu_clock_event_seconds_total", _C, (*_GPU, "reason"),
    "Time throttled for this reason (NVML F74 to F81, F269 to F271, D240 to D247, D1420 to D1424).",
)  # fmt: skip

GPU_ECC_ERRORS = Metric(
    "lockstep_gpu_ecc_errors_total", _C, (*_GPU, "type", "counter"),
    "Memory errors; counter = volatile (since the driver began) or aggregate (F3 to F6, D310-313).",
)  # fmt: skip
GPU_ECC_LOCATION_ERRORS = Metric(
    "lockstep_gpu_ecc_location_errors_total", _C, (*_GPU, "type", "counter", "location"),
    "The same by place (nvmlDeviceGetMemoryErrorCounter); location other = all further ones, which"
    " have counted nothing yet: a first count is a new series, which the sum over places sees.",
    unshown=Unshown.EVIDENCE,
)  # fmt: skip
GPU_ECC_MODE = Metric(
    "lockstep_gpu_ecc_mode", _G, (*_GPU, "when"), "1 if on; when = current or pending (F1, F2).",
    unshown=Unshown.STANDING,
    within=ranges.FLAG,
)  # fmt: skip
GPU_SRAM_THRESHOLD = Metric(
    "lockstep_gpu_sram_threshold_exceeded", _G, _GPU,
    "1 if uncorrectable SRAM errors call for replacement (D346).",
    unshown=Unshown.EVIDENCE,
    within=ranges.FLAG,
)  # fmt: skip
GPU_REMAPPED_ROWS = Metric(
    "lockstep_gpu_remapped_rows", _G, (*_GPU, "cause"),
    "Memory rows replaced by spares (F142, F143; D394, D393).",
    unshown=Unshown.EVIDENCE,
)  # fmt: skip
GPU_ROW_REMAP_PENDING = Metric(
    "lockstep_gpu_row_remap_pending",
    _G,
    _GPU,
    "1 if rows wait for a reset (F144, D396).",
    within=ranges.FLAG,
)
GPU_ROW_REMAP_FAILED = Metric(
    "lockstep_gpu_row_remap_failed",
    _G,
    _GPU,
    "1 if a row could not be replaced (F145, D395).",
    within=ranges.FLAG,
)
GPU_ROW_REMAP_BANKS = Metric(
    "lockstep_gpu_row_remap_banks", _G, (*_GPU, "availability"),
    "Memory banks by how many spare rows are left (D385 to D389).",
    unshown=Unshown.EVIDENCE,
)  # fmt: skip
GPU_RETIRED_PAGES = Metric(
    "lockstep_gpu_retired_pages", _G, (*_GPU, "cause"),
    "Retired memory pages, before Ampere (F29, F30; D390, D391).",
    unshown=Unshown.EVIDENCE,
)  # fmt: skip
GPU_RETIRED_PENDING = Metric(
    "lockstep_gpu_retired_pages_pending", _G, _GPU, "1 if pages wait for a reset (F31, D392).",
    unshown=Unshown.EVIDENCE,
    within=ranges.FLAG,
)  # fmt: skip

GPU_PCIE_WIDTH = Metric(
    "lockstep_gpu_pcie_link_width",
    _G,
    _GPU,
    "Lanes in use; may fall when idle (D238).",
    within=ranges.PCIE_LANES,
)
GPU_PCIE_WIDTH_MAX = Metric(
    "lockstep_gpu_pcie_link_width_max", _G, _GPU, "Lanes (D236).", within=ranges.PCIE_LANES
)
GPU_PCIE_GENERATION = Metric(
    "lockstep_gpu_pcie_link_generation", _G, _GPU, "Generation in use; may fall when idle (D237).",
    unshown=Unshown.STANDING,
    within=ranges.PCIE_GENERATION,
)  # fmt: skip
GPU_PCIE_GENERATION_MAX = Metric(
    "lockstep_gpu_pcie_link_generation_max", _G, _GPU, "Generation of the GPU and its slot (D235).",
    unshown=Unshown.STANDING,
    within=ranges.PCIE_GENERATION,
)  # fmt: skip
GPU_PCIE_REPLAY = Metric(
    "lockstep_gpu_pcie_replay_total", _C, _GPU, "Packets sent again (F94, D202)."
)
GPU_PCIE_REPLAY_ROLLOVER = Metric(
    "lockstep_gpu_pcie_replay_rollover_total", _C, _GPU, "Overflows of the replay number (F95).",
    unshown=Unshown.EVIDENCE,
)  # fmt: skip
GPU_PCIE_ERRORS = Metric(
    "lockstep_gpu_pcie_errors_total", _C, (*_GPU, "kind"), "PCIe errors (F173 to F183)."
)
GPU_PCIE_RECOVERY = Metric(
    "lockstep_gpu_pcie_l0_to_recovery_total", _C, _GPU, "Times the link had to recover (F169).",
    unshown=Unshown.EVIDENCE,
)  # fmt: skip
GPU_PCIE_BYTES = Metric(
    "lockstep_gpu_pcie_bytes_total", _C, (*_GPU, "direction"), "PCIe traffic (F197, F198).",
    unshown=Unshown.GPU_DETAIL,
)  # fmt: skip

GPU_NVLINK_UP = Metric(
    "lockstep_gpu_nvlink_up",
    _G,
    (*_GPU, "link"),
    "1 if the link is up (nvmlDeviceGetNvLinkState, D1508).",
    within=ranges.FLAG,
)
GPU_NVLINK_BYTES = Metric(
    "lockstep_gpu_nvlink_bytes_total", _C, (*_GPU, "direction"),
    "Payload over all links (F138, F139; from NVLink 5 on F202, F204; D1201, D1203).",
)  # fmt: skip
GPU_NVLINK_ERRORS = Metric(
    "lockstep_gpu_nvlink_errors_total", _C, (*_GPU, "link", "kind"),
    "NVLink errors (F38, F45, F52, F59, F160, D409 to D439; F161 to F163, D497 to D499; from"
    " NVLink 5 on F206 to F215, F219, F221, D1204 to D1214, D1219, D1220); link all"
    " = only the sum is reported, other = all further links, which have counted nothing"
    " yet: a first count is a new series, which the sum over links sees.",
)  # fmt: skip
GPU_NVLINK_BER = Metric(
    "lockstep_gpu_nvlink_bit_error_ratio", _G, (*_GPU, "link", "kind"),
    "Bit errors of the bits sent (F220, F222, decoded as mantissa and decimal exponent; D1216,"
    " D1218 over all links).",
    unshown=Unshown.EVIDENCE,
    within=ranges.BIT_ERRORS,
)  # fmt: skip
GPU_FABRIC_STATE = Metric(
    "lockstep_gpu_fabric_state", _G, (*_GPU, "state"),
    "1 for the state of the registration with the Fabric Manager (D170).",
    unshown=Unshown.EVIDENCE,
    within=ranges.FLAG,
)  # fmt: skip
GPU_FABRIC_HEALTHY = Metric(
    "lockstep_gpu_fabric_healthy", _G, _GPU,
    "1 if registration is complete and no fabric health bit complains (D174, D175).",
    unshown=Unshown.EVIDENCE,
    within=ranges.FLAG,
)  # fmt: skip
