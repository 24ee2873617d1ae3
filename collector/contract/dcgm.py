"""DCGM's fields and the metrics of ours that they are: ids, names old and new, units.

Rely on ids: DCGM 4.6 renamed fields and kept their numbers and units: GPU_UTIL_RATIO is percent
still (the second half of its dcgm_fields.h says which old name is which new one). The same table
reads DCGM, reads the page of a dcgm-exporter, and writes our values under DCGM's names. DCGM
numbers the remapped rows the other way round than NVML, and its field 449 is a rate although typed
as a counter: it is not here.
"""

from typing import NamedTuple

from collector.contract import metrics as m
from collector.contract.metrics import Kind, Metric

PREFIX = "DCGM_FI_"


class DcgmField(NamedTuple):
    """A field: our value times `per` is DCGM's.

    Attributes:
        names: The name without PREFIX, then what later versions call it.
        labels: Values of the metric's labels after gpu and uuid.
        also: Number of a later field that tells the same.
    """

    id: int
    names: tuple[str, ...]
    metric: Metric
    labels: tuple[str, ...] = ()
    per: float = 1
    also: int | None = None

    @property
    def legacy(self) -> str:
        """The name that dashboards know."""
        return PREFIX + self.names[0]

    @property
    def counter(self) -> bool:
        """Whether it counts."""
        return self.metric.kind is Kind.COUNTER


_MHZ, _MIB, _PERCENT = 1e-6, 1 / (1 << 20), 100
_MJ = 1e3
_NS = 1e9
"""Of the times throttled. Those of 240 to 247 are nvmlViolationTime_t's, nanoseconds, and so says
dcgm_fields.h since DCGM 4; its Python twin and older headers say microseconds, which dcgm-exporter
repeated until its pull request 589 had compared them with a GPU's values."""
_SBE, _DBE = "corrected", "uncorrected"

DCGM_FIELDS: tuple[DcgmField, ...] = (
    DcgmField(100, ("DEV_SM_CLOCK", "DEV_SM_CLOCK_MHZ"), m.GPU_CLOCK, ("sm",), _MHZ),
    DcgmField(101, ("DEV_MEM_CLOCK", "DEV_MEM_CLOCK_MHZ"), m.GPU_CLOCK, ("mem",), _MHZ),
    DcgmField(102, ("DEV_VIDEO_CLOCK",), m.GPU_CLOCK, ("video",), _MHZ),
    DcgmField(113, ("DEV_MAX_SM_CLOCK",), m.GPU_CLOCK_MAX, ("sm",), _MHZ),
    DcgmField(114, ("DEV_MAX_MEM_CLOCK",), m.GPU_CLOCK_MAX, ("mem",), _MHZ),
    DcgmField(115, ("DEV_MAX_VIDEO_CLOCK",), m.GPU_CLOCK_MAX, ("video",), _MHZ),
    DcgmField(140, ("DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS"), m.GPU_TEMPERATURE, ("memory",)),
    DcgmField(150, ("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS"), m.GPU_TEMPERATURE, ("gpu",)),
    DcgmField(
        151, ("DEV_MEM_MAX_OP_TEMP", "DEV_MEMORY_MAX_OP_TEMP_CELSIUS"),
        m.GPU_TEMPERATURE_LIMIT, ("mem_max",),
    ),
    DcgmField(
        152, ("DEV_GPU_MAX_OP_TEMP", "DEV_GPU_MAX_OP_TEMP_CELSIUS"),
        m.GPU_TEMPERATURE_LIMIT, ("gpu_max",),
    ),
    DcgmField(153, ("DEV_GPU_TEMP_LIMIT", "DEV_GPU_TEMP_MARGIN_CELSIUS"), m.GPU_TEMPERATURE_MARGIN),
    DcgmField(155, ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"), m.GPU_POWER_AVERAGE),
    DcgmField(157, ("DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS"), m.GPU_POWER),
    DcgmField(156, ("DEV_TOTAL_ENERGY_CONSUMPTION",), m.GPU_ENERGY, (), _MJ),
    DcgmField(
        158, ("DEV_SLOWDOWN_TEMP", "DEV_GPU_TEMP_SLOWDOWN_CELSIUS"),
        m.GPU_TEMPERATURE_LIMIT, ("slowdown",),
    ),
    DcgmField(
        159, ("DEV_SHUTDOWN_TEMP", "DEV_GPU_TEMP_SHUTDOWN_CELSIUS"),
        m.GPU_TEMPERATURE_LIMIT, ("shutdown",),
    ),
    DcgmField(
        160, ("DEV_POWER_MGMT_LIMIT", "DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS"),
        m.GPU_POWER_LIMIT, ("requested",),
    ),
    DcgmField(
        161, ("DEV_POWER_MGMT_LIMIT_MIN", "DEV_BOARD_POWER_LIMIT_MIN_WATTS"),
        m.GPU_POWER_LIMIT, ("min",),
    ),
    DcgmField(
        162, ("DEV_POWER_MGMT_LIMIT_MAX", "DEV_BOARD_POWER_LIMIT_MAX_WATTS"),
        m.GPU_POWER_LIMIT, ("max",),
    ),
    DcgmField(
        163, ("DEV_POWER_MGMT_LIMIT_DEF", "DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS"),
        m.GPU_POWER_LIMIT, ("default",),
    ),
    DcgmField(
        164, ("DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"),
        m.GPU_POWER_LIMIT, ("enforced",),
    ),
    DcgmField(190, ("DEV_PSTATE", "DEV_GPU_PSTATE"), m.GPU_PERFORMANCE_STATE),
    DcgmField(202, ("DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL"), m.GPU_PCIE_REPLAY),
    DcgmField(203, ("DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO"), m.GPU_UTILIZATION, (), _PERCENT),
    DcgmField(204, ("DEV_MEM_COPY_UTIL",), m.GPU_COPY_UTILIZATION, (), _PERCENT),
    DcgmField(230, ("DEV_XID_ERRORS", "DEV_XID_ERROR"), m.GPU_LAST_XID),
    DcgmField(235, ("DEV_PCIE_MAX_LINK_GEN",), m.GPU_PCIE_GENERATION_MAX),
    DcgmField(236, ("DEV_PCIE_MAX_LINK_WIDTH",), m.GPU_PCIE_WIDTH_MAX),
    DcgmField(237, ("DEV_PCIE_LINK_GEN",), m.GPU_PCIE_GENERATION),
    DcgmField(238, ("DEV_PCIE_LINK_WIDTH",), m.GPU_PCIE_WIDTH),
    DcgmField(
        240, ("DEV_POWER_VIOLATION", "DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS"),
        m.GPU_CLOCK_EVENT_SECONDS, ("sw_power_cap",), _NS, also=1420,
    ),
    DcgmField(
        242, ("DEV_SYNC_BOOST_VIOLATION", "DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS"),
        m.GPU_CLOCK_EVENT_SECONDS, ("sync_boost",), _NS, also=1421,
    ),
    *(
        DcgmField(number, (f"DEV_{name}",), m.GPU_CLOCK_EVENT_SECONDS, (reason,), _NS)
        for number, name, reason in (
            (241, "THERMAL_VIOLATION", "thermal"),
            (243, "BOARD_LIMIT_VIOLATION", "board_limit"),
            (244, "LOW_UTIL_VIOLATION", "low_util"),
            (245, "RELIABILITY_VIOLATION", "reliability"),
            (246, "TOTAL_APP_CLOCKS_VIOLATION", "app_clocks"),
            (247, "TOTAL_BASE_CLOCKS_VIOLATION", "base_clocks"),
            (1422, "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "sw_thermal"),
            (1423, "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "hw_thermal"),
            (1424, "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "hw_power_brake"),
        )
    ),
    DcgmField(250, ("DEV_FB_TOTAL",), m.GPU_MEMORY_TOTAL, (), _MIB),
    DcgmField(251, ("DEV_FB_FREE",), m.GPU_MEMORY_FREE, (), _MIB),
    DcgmField(252, ("DEV_FB_USED",), m.GPU_MEMORY_USED, (), _MIB),
    DcgmField(253, ("DEV_FB_RESERVED",), m.GPU_MEMORY_RESERVED, (), _MIB),
    DcgmField(300, ("DEV_ECC_CURRENT", "DEV_ECC_MODE"), m.GPU_ECC_MODE, ("current",)),
    DcgmField(301, ("DEV_ECC_PENDING",), m.GPU_ECC_MODE, ("pending",)),
    DcgmField(310, ("DEV_ECC_SBE_VOL_TOTAL",), m.GPU_ECC_ERRORS, (_SBE, "volatile")),
    DcgmField(311, ("DEV_ECC_DBE_VOL_TOTAL",), m.GPU_ECC_ERRORS, (_DBE, "volatile")),
    DcgmField(312, ("DEV_ECC_SBE_AGG_TOTAL",), m.GPU_ECC_ERRORS, (_SBE, "aggregate")),
    DcgmField(313, ("DEV_ECC_DBE_AGG_TOTAL",), m.GPU_ECC_ERRORS, (_DBE, "aggregate")),
    DcgmField(346, ("DEV_THRESHOLD_SRM", "DEV_SRAM_EXCEEDED"), m.GPU_SRAM_THRESHOLD),
    *(
        DcgmField(
            385 + place,
            (f"DEV_BANKS_REMAP_ROWS_AVAIL_{word.upper()}", f"DEV_BANK_REMAP_AVAIL_{word.upper()}"),
            m.GPU_ROW_REMAP_BANKS, (word,),
        )
        for place, word in enumerate(("max", "high", "partial", "low", "none"))
    ),
    DcgmField(
        390, ("DEV_RETIRED_SBE", "DEV_PAGE_RETIRED_SBE_TOTAL"),
        m.GPU_RETIRED_PAGES, ("sbe",),
    ),
    DcgmField(
        391, ("DEV_RETIRED_DBE", "DEV_PAGE_RETIRED_DBE_TOTAL"),
        m.GPU_RETIRED_PAGES, ("dbe",),
    ),
    DcgmField(392, ("DEV_RETIRED_PENDING", "DEV_PAGE_RETIRED_PENDING"), m.GPU_RETIRED_PENDING),
    DcgmField(
        393, ("DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
        m.GPU_REMAPPED_ROWS, ("uncorrectable",),
    ),
    DcgmField(
        394, ("DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL"),
        m.GPU_REMAPPED_ROWS, ("correctable",),
    ),
    DcgmField(395, ("DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED"), m.GPU_ROW_REMAP_FAILED),
    DcgmField(396, ("DEV_ROW_REMAP_PENDING",), m.GPU_ROW_REMAP_PENDING),
    DcgmField(
        409, ("DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_FLIT_ERROR_TOTAL"),
        m.GPU_NVLINK_ERRORS, ("all", "crc_flit"),
    ),
    DcgmField(
        419, ("DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_DATA_ERROR_TOTAL"),
        m.GPU_NVLINK_ERRORS, ("all", "crc_data"),
    ),
    DcgmField(
        429, ("DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_TOTAL"),
        m.GPU_NVLINK_ERRORS, ("all", "replay"),
    ),
    DcgmField(
        439, ("DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_TOTAL"),
        m.GPU_NVLINK_ERRORS, ("all", "recovery"),
    ),
    DcgmField(
        1001, ("PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO", "PROF_GR_UTIL_RATIO"),
        m.GPU_ENGINE_ACTIVE,
    ),
    DcgmField(1002, ("PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO"), m.GPU_SM_ACTIVE),
    DcgmField(1003, ("PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO"), m.GPU_SM_OCCUPANCY),
    DcgmField(1004, ("PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO"), m.GPU_TENSOR_ACTIVE),
    DcgmField(1005, ("PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO"), m.GPU_DRAM_ACTIVE),
    DcgmField(1006, ("PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO"), m.GPU_FP64_ACTIVE),
    DcgmField(1007, ("PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO"), m.GPU_FP32_ACTIVE),
    DcgmField(1008, ("PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO"), m.GPU_FP16_ACTIVE),
    DcgmField(
        1201, ("DEV_NVLINK_COUNT_TX_BYTES", "DEV_NVLINK_TX_BYTES_TOTAL"),
        m.GPU_NVLINK_BYTES, ("transmit",),
    ),
    DcgmField(
        1203, ("DEV_NVLINK_COUNT_RX_BYTES", "DEV_NVLINK_RX_BYTES_TOTAL"),
        m.GPU_NVLINK_BYTES, ("receive",),
    ),
    DcgmField(
        1523, ("DEV_GET_GPU_RECOVERY_ACTION", "DEV_GPU_RECOVERY_ACTION"),
        m.GPU_RECOVERY_ACTION,
    ),
)  # fmt: skip
"""Every field that is a metric of ours."""

CLOCK_EVENTS_FIELD = (112, ("DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS"))
"""Bits, words.CLOCK_EVENT_BITS."""
FABRIC_MANAGER_FIELD = (170, ("DEV_FABRIC_MANAGER_STATUS",))
"""dcgmFabricManagerStatus_t: 0 not supported, 1 not started, 2 in progress, 3 success, 4 failure,
5 unrecognized, 6 NVML is too old to tell."""
FABRIC_HEALTH_FIELD = (174, ("DEV_FABRIC_HEALTH_MASK",))
"""Bits, as NVML_GPU_FABRIC_HEALTH_MASK of nvml.h."""
FABRIC_SUMMARY_FIELD = (175, ("DEV_FABRIC_HEALTH_SUMMARY",))
"""0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity (NVML_GPU_FABRIC_HEALTH_SUMMARY)."""
RAW_FIELDS = (
    CLOCK_EVENTS_FIELD, FABRIC_MANAGER_FIELD, FABRIC_HEALTH_FIELD, FABRIC_SUMMARY_FIELD,
)  # fmt: skip
"""Fields that are no metric of ours but become several."""

NOT_USED = frozenset(
    PREFIX + name
    for name in (
        "DRIVER_VERSION", "DEV_ENC_UTIL", "DEV_DEC_UTIL", "DEV_VGPU_LICENSE_STATUS",
        "DEV_NVLINK_BANDWIDTH_TOTAL", "PROF_PCIE_TX_BYTES", "PROF_PCIE_RX_BYTES",
        "PROF_NVLINK_TX_BYTES", "PROF_NVLINK_RX_BYTES",
    )
)  # fmt: skip
"""Of dcgm-exporter's default counters (etc/default-counters.csv, etc/dcp-metrics-included.csv) and
beside them: what is known and no metric of ours; the last five are rates."""

FIELD_IDS: dict[str, int] = {PREFIX + name: one.id for one in DCGM_FIELDS for name in one.names} | {
    PREFIX + name: number for number, names in RAW_FIELDS for name in names
}
"""Every name of every field above."""
