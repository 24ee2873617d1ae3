"""Which NVML field is which value: field ids of nvml.h, units of the driver, base units of ours."""

from collections.abc import Iterator
from typing import NamedTuple

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Metric

ALL_LINKS = 0xFFFFFFFF
"""Scope of the NVLink fields that asks for the sum over links (nvml.h: UINT_MAX)."""
NVLINK_COUNT = 91
MAX_LINKS = 72


class Field(NamedTuple):
    """A field and where its value goes; dividing by `per` turns the driver's unit into ours."""

    id: int
    metric: Metric
    labels: str = ""
    per: float = 1
    scope: int = 0


_NS, _MILLI, _KIB = 1e9, 1e3, 1 / 1024

FAST: tuple[Field, ...] = (
    Field(74, m.GPU_CLOCK_EVENT_SECONDS, "sw_power_cap", _NS),
    Field(75, m.GPU_CLOCK_EVENT_SECONDS, "thermal", _NS),
    Field(76, m.GPU_CLOCK_EVENT_SECONDS, "sync_boost", _NS),
    Field(77, m.GPU_CLOCK_EVENT_SECONDS, "board_limit", _NS),
    Field(78, m.GPU_CLOCK_EVENT_SECONDS, "low_util", _NS),
    Field(79, m.GPU_CLOCK_EVENT_SECONDS, "reliability", _NS),
    Field(80, m.GPU_CLOCK_EVENT_SECONDS, "app_clocks", _NS),
    Field(81, m.GPU_CLOCK_EVENT_SECONDS, "base_clocks", _NS),
    Field(269, m.GPU_CLOCK_EVENT_SECONDS, "sw_thermal", _NS),
    Field(270, m.GPU_CLOCK_EVENT_SECONDS, "hw_thermal", _NS),
    Field(271, m.GPU_CLOCK_EVENT_SECONDS, "hw_power_brake", _NS),
    Field(82, m.GPU_TEMPERATURE, "memory"),
    Field(83, m.GPU_ENERGY, "", _MILLI),
    Field(185, m.GPU_POWER_AVERAGE, "", _MILLI),
    Field(186, m.GPU_POWER, "", _MILLI),
    Field(190, m.GPU_POWER_LIMIT, "enforced", _MILLI),
    Field(197, m.GPU_PCIE_BYTES, "transmit"),
    Field(198, m.GPU_PCIE_BYTES, "receive"),
    Field(230, m.GPU_RECOVERY_ACTION),
)
"""Read every second, in one call."""

SLOW: tuple[Field, ...] = (
    Field(1, m.GPU_ECC_MODE, "current"),
    Field(2, m.GPU_ECC_MODE, "pending"),
    Field(3, m.GPU_ECC_ERRORS, "corrected/volatile"),
    Field(4, m.GPU_ECC_ERRORS, "uncorrected/volatile"),
    Field(5, m.GPU_ECC_ERRORS, "corrected/aggregate"),
    Field(6, m.GPU_ECC_ERRORS, "uncorrected/aggregate"),
    Field(29, m.GPU_RETIRED_PAGES, "sbe"),
    Field(30, m.GPU_RETIRED_PAGES, "dbe"),
    Field(31, m.GPU_RETIRED_PENDING),
    Field(142, m.GPU_REMAPPED_ROWS, "correctable"),
    Field(143, m.GPU_REMAPPED_ROWS, "uncorrectable"),
    Field(144, m.GPU_ROW_REMAP_PENDING),
    Field(145, m.GPU_ROW_REMAP_FAILED),
    Field(94, m.GPU_PCIE_REPLAY),
    Field(95, m.GPU_PCIE_REPLAY_ROLLOVER),
    Field(169, m.GPU_PCIE_RECOVERY),
    *(
        Field(number, m.GPU_PCIE_ERRORS, kind)
        for number, kind in enumerate(
            ("correctable", "naks_received", "receiver", "bad_tlp", "naks_sent", "bad_dllp",
             "non_fatal", "fatal", "unsupported_req", "lcrc", "lane"),
            173,
        )
    ),
    Field(187, m.GPU_POWER_LIMIT, "min", _MILLI),
    Field(188, m.GPU_POWER_LIMIT, "max", _MILLI),
    Field(189, m.GPU_POWER_LIMIT, "default", _MILLI),
    Field(193, m.GPU_TEMPERATURE_LIMIT_MARGIN, "shutdown"),
    Field(194, m.GPU_TEMPERATURE_LIMIT_MARGIN, "slowdown"),
    Field(195, m.GPU_TEMPERATURE_LIMIT_MARGIN, "mem_max"),
    Field(196, m.GPU_TEMPERATURE_LIMIT_MARGIN, "gpu_max"),
    Field(38, m.GPU_NVLINK_ERRORS, "all/crc_flit"),
    Field(45, m.GPU_NVLINK_ERRORS, "all/crc_data"),
    Field(52, m.GPU_NVLINK_ERRORS, "all/replay"),
    Field(59, m.GPU_NVLINK_ERRORS, "all/recovery"),
    Field(160, m.GPU_NVLINK_ERRORS, "all/ecc"),
)  # fmt: skip
"""Read every thirty seconds, in one call."""

NVLINK_FAST: tuple[Field, ...] = (
    Field(138, m.GPU_NVLINK_BYTES, "transmit", _KIB, ALL_LINKS),
    Field(139, m.GPU_NVLINK_BYTES, "receive", _KIB, ALL_LINKS),
)
"""Added to FAST on a GPU with links."""
NVLINK_5_FAST: tuple[Field, ...] = (
    Field(202, m.GPU_NVLINK_BYTES, "transmit", 1, ALL_LINKS),
    Field(204, m.GPU_NVLINK_BYTES, "receive", 1, ALL_LINKS),
)
"""In place of them where they are not supported."""

_PER_LINK = {161: "dl_replay", 162: "dl_recovery", 163: "dl_crc", 215: "link_recovery",
             219: "effective", 221: "symbol"}  # fmt: skip
_BER = {220: "effective", 222: "symbol"}
_SUMMED = {
    206: "malformed_packet", 207: "buffer_overrun", 208: "rcv", 209: "rcv_remote",
    210: "rcv_general", 211: "local_link_integrity", 212: "xmit_discards",
    213: "link_recovery_successful", 214: "link_recovery_failed",
}  # fmt: skip


def link_fields(links: int) -> Iterator[Field]:
    """Fields that have a value a link; `bit_error_ratio` decodes those of GPU_NVLINK_BER."""
    for link in range(min(links, MAX_LINKS)):
        for number, kind in _PER_LINK.items():
            yield Field(number, m.GPU_NVLINK_ERRORS, f"{link}/{kind}", 1, link)
        for number, kind in _BER.items():
            yield Field(number, m.GPU_NVLINK_BER, f"{link}/{kind}", 1, link)


def summed_fields(links: int) -> Iterator[Field]:
    """Fields that have a value a link and are added up: one series a link would be too many."""
    for number, kind in _SUMMED.items():
        for link in range(min(links, MAX_LINKS)):
            yield Field(number, m.GPU_NVLINK_ERRORS, f"all/{kind}", 1, link)


def bit_error_ratio(packed: int) -> float:
    """Mantissa in bits 8 to 11, decimal exponent below zero in bits 0 to 7 (nvml.h, F220).

    The base of the exponent has not been checked against hardware.
    """
    return float(packed >> 8 & 0xF) * 10.0 ** -(packed & 0xFF)
