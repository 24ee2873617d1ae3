"""DCGM's fields and the metrics of ours that they are: ids, names old and new, units.

Rely on ids: DCGM 4.6 renamed fields and kept their numbers and units (the second half of its
dcgm_fields.h says which old name is which new one), and DCGM 4.6 and 4.7 added fields of other
numbers that tell the same in base units (1600 to 1650): hertz, bytes, joules, seconds, shares. One
name means both, AMBIGUOUS. The same table reads DCGM, reads the page of a dcgm-exporter, and writes
our values under DCGM's names. DCGM numbers the remapped rows the other way round than NVML, and its
field 449 is a rate although typed as a counter: it is not here.

Sources: dcgm_fields.h of DCGM 3.1 to 4.6 and go-dcgm 1.4611 (DCGM 4.6.1); of DCGM 4.7 its list of
field identifiers, as far as others quote it: the names of 1620, 1623 and 1624 are told without
their ends, and all likely spellings are read.
"""

import re
from typing import NamedTuple

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Kind, Metric

PREFIX = "DCGM_FI_"


class Twin(NamedTuple):
    """A later field that tells the same, mostly in base units; as in DcgmField."""

    id: int
    names: tuple[str, ...]
    per: float = 1


class DcgmField(NamedTuple):
    """A field: our value times `per` is DCGM's.

    Attributes:
        names: The name without PREFIX, then what later versions call it.
        labels: Values of the metric's labels after gpu and uuid.
        also: Later fields that tell the same; this one comes first where several are told.
    """

    id: int
    names: tuple[str, ...]
    metric: Metric
    labels: tuple[str, ...] = ()
    per: float = 1
    also: tuple[Twin, ...] = ()

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
ALL_LINKS = "all"
"""Label `link` of a sum over the links of a GPU."""


def _base(number: int, name: str) -> tuple[Twin, ...]:
    """A field in base units."""
    return (Twin(number, (f"DEV_{name}",)),)


def _throttled(number: int, *reasons: str) -> tuple[Twin, ...]:
    return (Twin(number, tuple(f"DEV_GPU_{reason}_THROTTLE_SECONDS_TOTAL" for reason in reasons)),)


_NVLINK_ERRORS: tuple[tuple[int, str, tuple[str, ...]], ...] = (
    (497, "dl_crc", ("DEV_NVLINK_ERROR_DL_CRC", "DEV_NVLINK_CRC_ERROR_TOTAL")),
    (498, "dl_recovery", ("DEV_NVLINK_ERROR_DL_RECOVERY", "DEV_NVLINK_RECOVERY_TOTAL")),
    (499, "dl_replay", ("DEV_NVLINK_ERROR_DL_REPLAY", "DEV_NVLINK_REPLAY_TOTAL")),
    *(
        (number, kind, (f"DEV_NVLINK_COUNT_{old}", f"DEV_NVLINK_{new}_TOTAL"))
        for number, kind, old, new in (
            (1204, "malformed_packet", "RX_MALFORMED_PACKET_ERRORS", "RX_PACKET_MALFORMED"),
            (1205, "buffer_overrun", "RX_BUFFER_OVERRUN_ERRORS", "RX_PACKET_DROPPED"),
            (1206, "rcv", "RX_ERRORS", "RX_ERROR"),
            (1207, "rcv_remote", "RX_REMOTE_ERRORS", "RX_REMOTE_ERROR"),
            (1208, "rcv_general", "RX_GENERAL_ERRORS", "RX_GENERAL_ERROR"),
            (1209, "local_link_integrity", "LOCAL_LINK_INTEGRITY_ERRORS", "INTEGRITY_ERROR"),
            (1210, "xmit_discards", "TX_DISCARDS", "TX_DISCARD"),
            (1211, "link_recovery_successful", "LINK_RECOVERY_SUCCESSFUL_EVENTS",
             "RECOVERY_SUCCESSFUL"),
            (1212, "link_recovery_failed", "LINK_RECOVERY_FAILED_EVENTS", "RECOVERY_FAILED"),
            (1213, "link_recovery", "LINK_RECOVERY_EVENTS", "RECOVERY_EVENT"),
            (1214, "symbol", "RX_SYMBOL_ERRORS", "RX_SYMBOL_ERROR"),
            (1219, "effective", "EFFECTIVE_ERRORS", "EFFECTIVE_ERROR"),
        )
    ),
    (1220, "ecc", ("DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL", "DEV_NVLINK_ECC_ERROR_TOTAL")),
)  # fmt: skip
"""Number, label `kind` and names; kinds as NVML's fields of the same counters have them. From
NVLink 5 on (B200, GB200) these stand in place of 409 to 439; each is a sum over all links."""

DCGM_FIELDS: tuple[DcgmField, ...] = (
    DcgmField(
        100, ("DEV_SM_CLOCK", "DEV_SM_CLOCK_MHZ"), m.GPU_CLOCK, ("sm",), _MHZ,
        _base(1603, "SM_CLOCK_HERTZ"),
    ),
    DcgmField(
        101, ("DEV_MEM_CLOCK", "DEV_MEM_CLOCK_MHZ"), m.GPU_CLOCK, ("mem",), _MHZ,
        _base(1604, "MEMORY_CLOCK_HERTZ"),
    ),
    DcgmField(
        102, ("DEV_VIDEO_CLOCK",), m.GPU_CLOCK, ("video",), _MHZ, _base(1605, "VIDEO_CLOCK_HERTZ")
    ),
    DcgmField(
        113, ("DEV_MAX_SM_CLOCK",), m.GPU_CLOCK_MAX, ("sm",), _MHZ,
        _base(1608, "SM_MAX_CLOCK_HERTZ"),
    ),
    DcgmField(
        114, ("DEV_MAX_MEM_CLOCK",), m.GPU_CLOCK_MAX, ("mem",), _MHZ,
        _base(1609, "MEMORY_MAX_CLOCK_HERTZ"),
    ),
    DcgmField(
        115, ("DEV_MAX_VIDEO_CLOCK",), m.GPU_CLOCK_MAX, ("video",), _MHZ,
        _base(1610, "VIDEO_MAX_CLOCK_HERTZ"),
    ),
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
    DcgmField(
        156, ("DEV_TOTAL_ENERGY_CONSUMPTION",), m.GPU_ENERGY, (), _MJ,
        _base(1611, "GPU_ENERGY_JOULES_TOTAL"),
    ),
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
    # 203 and 1613 share a name, see AMBIGUOUS.
    DcgmField(203, ("DEV_GPU_UTIL",), m.GPU_UTILIZATION, (), _PERCENT, (Twin(1613, ()),)),
    DcgmField(
        204, ("DEV_MEM_COPY_UTIL",), m.GPU_COPY_UTILIZATION, (), _PERCENT,
        _base(1614, "MEMORY_UTIL_RATIO"),
    ),
    DcgmField(230, ("DEV_XID_ERRORS", "DEV_XID_ERROR"), m.GPU_LAST_XID),
    DcgmField(235, ("DEV_PCIE_MAX_LINK_GEN",), m.GPU_PCIE_GENERATION_MAX),
    DcgmField(236, ("DEV_PCIE_MAX_LINK_WIDTH",), m.GPU_PCIE_WIDTH_MAX),
    DcgmField(237, ("DEV_PCIE_LINK_GEN",), m.GPU_PCIE_GENERATION),
    DcgmField(238, ("DEV_PCIE_LINK_WIDTH",), m.GPU_PCIE_WIDTH),
    *(
        DcgmField(number, (f"DEV_{name}",), m.GPU_CLOCK_EVENT_SECONDS, (reason,), _NS, also)
        for number, name, reason, also in (
            (240, "POWER_VIOLATION", "sw_power_cap", (
                Twin(1420, ("DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS",), _NS),
                *_throttled(1617, "POWER"),
            )),
            (241, "THERMAL_VIOLATION", "thermal", _throttled(1618, "THERMAL")),
            (242, "SYNC_BOOST_VIOLATION", "sync_boost", (
                Twin(1421, ("DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS",), _NS),
                *_throttled(1619, "SYNC_BOOST"),
            )),
            (243, "BOARD_LIMIT_VIOLATION", "board_limit",
             _throttled(1620, "LIMIT", "BOARD_LIMIT")),
            (244, "LOW_UTIL_VIOLATION", "low_util", _throttled(1621, "LOW_UTIL")),
            (245, "RELIABILITY_VIOLATION", "reliability", _throttled(1622, "RELIABILITY")),
            (246, "TOTAL_APP_CLOCKS_VIOLATION", "app_clocks",
             _throttled(1623, "APP", "APP_CLOCK", "APP_CLOCKS", "TOTAL_APP_CLOCKS")),
            (247, "TOTAL_BASE_CLOCKS_VIOLATION", "base_clocks",
             _throttled(1624, "BASE", "BASE_CLOCK", "BASE_CLOCKS", "TOTAL_BASE_CLOCKS")),
            (1422, "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "sw_thermal", ()),
            (1423, "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "hw_thermal", ()),
            (1424, "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "hw_power_brake", ()),
        )
    ),
    DcgmField(
        250, ("DEV_FB_TOTAL",), m.GPU_MEMORY_TOTAL, (), _MIB, _base(1625, "FB_CAPACITY_BYTES")
    ),
    DcgmField(251, ("DEV_FB_FREE",), m.GPU_MEMORY_FREE, (), _MIB, _base(1626, "FB_FREE_BYTES")),
    DcgmField(252, ("DEV_FB_USED",), m.GPU_MEMORY_USED, (), _MIB, _base(1627, "FB_USED_BYTES")),
    DcgmField(
        253, ("DEV_FB_RESERVED",), m.GPU_MEMORY_RESERVED, (), _MIB,
        _base(1628, "FB_RESERVED_BYTES"),
    ),
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
        m.GPU_NVLINK_ERRORS, (ALL_LINKS, "crc_flit"),
    ),
    DcgmField(
        419, ("DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_DATA_ERROR_TOTAL"),
        m.GPU_NVLINK_ERRORS, (ALL_LINKS, "crc_data"),
    ),
    DcgmField(
        429, ("DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_TOTAL"),
        m.GPU_NVLINK_ERRORS, (ALL_LINKS, "replay"),
    ),
    DcgmField(
        439, ("DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_TOTAL"),
        m.GPU_NVLINK_ERRORS, (ALL_LINKS, "recovery"),
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
    *(
        DcgmField(number, names, m.GPU_NVLINK_ERRORS, (ALL_LINKS, kind))
        for number, kind, names in _NVLINK_ERRORS
    ),
    DcgmField(
        1216, ("DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT", "DEV_NVLINK_SYMBOL_BER_RATIO"),
        m.GPU_NVLINK_BER, (ALL_LINKS, "symbol"),
    ),
    DcgmField(
        1218, ("DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT", "DEV_NVLINK_EFFECTIVE_BER_RATIO"),
        m.GPU_NVLINK_BER, (ALL_LINKS, "effective"),
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

LINK_FIELDS: dict[str, tuple[Metric, str]] = {
    PREFIX + name: (metric, kind)
    for metric, kind, names in (
        (m.GPU_NVLINK_UP, "", ("DEV_NVLINK_GET_STATE", "DEV_NVLINK_LINK_STATUS")),
        (m.GPU_NVLINK_ERRORS, "crc_flit", ("DEV_NVLINK_CRC_FLIT_ERROR_PER_LINK_TOTAL",)),
        (m.GPU_NVLINK_ERRORS, "crc_data", ("DEV_NVLINK_CRC_DATA_ERROR_PER_LINK_TOTAL",)),
        (m.GPU_NVLINK_ERRORS, "replay", ("DEV_NVLINK_REPLAY_ERROR_PER_LINK_TOTAL",)),
        (m.GPU_NVLINK_ERRORS, "recovery", ("DEV_NVLINK_RECOVERY_ERROR_PER_LINK_TOTAL",)),
        (m.GPU_NVLINK_ERRORS, "link_down", (
            "DEV_NVLINK_PPCNT_PHYSICAL_LINK_DOWN_COUNTER",
            "DEV_NVLINK_PPCNT_PHYSICAL_LINK_DOWN_TOTAL",
        )),
        (m.GPU_NVLINK_ERRORS, "uncorrectable_code", (
            "DEV_NVLINK_PPCNT_PLR_RCV_UNCORRECTABLE_CODE",
            "DEV_NVLINK_PPCNT_PLR_RX_CODE_UNCORRECTABLE_TOTAL",
        )),
    )
    for name in names
} | {
    PREFIX + name: (one.metric, one.labels[1])
    for one in DCGM_FIELDS if one.metric in (m.GPU_NVLINK_ERRORS, m.GPU_NVLINK_BER)
    for name in one.names
}  # fmt: skip
"""Fields that may have a value a link, and 1508, 1525 to 1528, 585 and 588, which always have:
metric and `kind`. The link's state is 0 inactive, 1 active, 2 asleep
(NVML_FI_DEV_NVLINK_GET_STATE); asleep is up."""

AMBIGUOUS = PREFIX + "DEV_GPU_UTIL_RATIO"
"""Name of field 203, in percent, in DCGM 4.6, and of 1613, a share, in DCGM 4.7: what the page says
beside it decides."""
PERCENT_FIELD, SHARE_FIELD = 203, 1613
OF_4_7 = frozenset(
    PREFIX + name
    for name in (
        *(
            name for one in DCGM_FIELDS for also in one.also for name in also.names
            if also.id > SHARE_FIELD
        ),
        "DEV_ENC_UTIL_RATIO", "DEV_DEC_UTIL_RATIO", "DEV_C2C_MAX_BANDWIDTH_BYTES_PER_SECOND",
        "DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "DEV_VGPU_FB_USED_BYTES",
    )
)  # fmt: skip
"""Names that DCGM 4.6 did not have: it ends with field 1612, and so has hertz and joules."""
ENGINE_FIELD = 1001
"""The share of time in which the engine of AMBIGUOUS was busy."""

XID_TOTAL, XID_WINDOW = "DCGM_EXP_XID_ERRORS_TOTAL", "DCGM_EXP_XID_ERRORS_COUNT"
"""Counts of dcgm-exporter's own, a series an XID: since it started (4.8 on, off by default), and
within a window of five minutes (3.3 on, off by default)."""

_NOT_USED = re.compile(
    PREFIX + r"(?:"
    r"(?:CUDA|DEV_CUDA|DRIVER|NVML|PROCESS|SYSTEM|BIND|SYNC|GPU_TOPOLOGY|IMEX|UNKNOWN)\w*"
    r"|DEV_(?:ACCOUNTING|AUTOBOOST|BAR1|BOARD_POWER_PROFILE|BOARD_SERIAL|BRAND|C2C|CC_MODE|COMPUTE|"
    r"CONNECTX|COUNT|CPU|CREATABLE|DIAG|ENFORCED_POWER_PROFILE|FABRIC_(?:CL|MANAGER_ERROR)|FAN|FBC|"
    r"GPM|INFOROM|MIG|MINOR|MODULE|NAME|NVML|NVSWITCH|OEM|P2P|PCI_|PERSISTENCE|PLATFORM|"
    r"POWER_INFOROM|PROCESS|PWR_SMOOTHING|REQUESTED|SERIAL|SUPPORTED|SXID|SYSIO|UUID|VALID|VBIOS|"
    r"VGPU|VIRTUAL)\w*"
    r"|DEV_GPU_(?:BRAND|COMPUTE_MODE|MINOR_NUMBER|NAME|NVLINK_ERRORS|PERSISTENCE_MODE|UUID|"
    r"VIRTUAL_MODE)"
    r"|DEV_(?:ENC|DEC)_(?:UTIL(?:_RATIO)?|STATS)|DEV_FB_USED_(?:PERCENT|RATIO)"
    r"|DEV_(?:APP_(?:MEM|SM)_CLOCK|(?:MEMORY|SM)_APP_CLOCK_HERTZ|CLOCKS_(?:AUTOBOOST|SUPPORTED)\w*)"
    r"|DEV_(?:MEM|MEMORY)_(?:AFFINITY_[0-9]|UNREPAIRABLE\w*)"
    r"|DEV_ECC_(?:INFOROM_VER|[SD]BE_(?:VOL|AGG)_(?:CBU|DEV|L1|L2|REG|SHM|SRM|TEX))"
    r"|DEV_PCIE_(?:[TR]X_THROUGHPUT|CORRECTABLE_ERROR_TOTAL|COUNT_CORRECTABLE_ERRORS)"
    r"|DEV_NVLINK_(?:(?:COUNT_)?FEC_HISTORY|PPCNT|PPRM|P2P|THROUGHPUT|BANDWIDTH|[TR]X_THROUGHPUT|"
    r"[TR]X_BANDWIDTH)\w*"
    r"|DEV_NVLINK_\w+_L[0-9]{1,2}(?:_\w+)?"
    r"|DEV_NVLINK_(?:ERROR|COUNT_[TR]X_PACKETS|[TR]X_PACKET_TOTAL|COUNT_(?:SYMBOL|EFFECTIVE)_BER|"
    r"(?:SYMBOL|EFFECTIVE)_BER_RAW)"
    r"|PROF_(?:C2C|DFMA|DMMA|FP(?:16|32|64)_CYCLES|HMMA|HOSTMEM|IMMA|INT|MMA|NVDEC|NVJPG|NVLINK|"
    r"NVOFA|PCIE|PEERMEM|PIPE_(?:INT|TENSOR_\w)|SM_CYCLES)\w*"
    r")",
    re.ASCII,
)
"""Families and names of DCGM 3.1 to 4.7 that are known and no metric of ours: identity, settings,
rates, other devices, places of memory errors, links one by one. It names no family whose fields we
read, so that a field of ours under a new name is not taken for one of these."""


def known(name: str) -> bool:
    """Whether a name is read, or known and no metric of ours."""
    return (
        name in FIELD_IDS
        or name in LINK_FIELDS
        or name == AMBIGUOUS
        or _NOT_USED.fullmatch(name) is not None
    )


FIELD_IDS: dict[str, int] = (
    {PREFIX + name: one.id for one in DCGM_FIELDS for name in one.names}
    | {PREFIX + name: also.id for one in DCGM_FIELDS for also in one.also for name in also.names}
    | {PREFIX + name: number for number, names in RAW_FIELDS for name in names}
)
"""Every name of every field above, but AMBIGUOUS."""
