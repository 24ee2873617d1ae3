"""What the statistics of NIC drivers mean, by the names that the drivers give them."""

import re
from enum import StrEnum
from typing import NamedTuple


class What(StrEnum):
    """What a statistic counts."""

    PAUSE = "pause"
    """Pause frames."""
    PAUSE_MICROSECONDS = "pause_microseconds"
    """Time under pause."""
    ERROR = "error"
    """Errors of optics, buffers or PCIe."""
    PCI_STALL_PERCENT = "pci_stall_percent"
    """Share of the last second, 0 to 100."""


class Meaning(NamedTuple):
    """What a statistic counts; `of` is the kind of an error, the priority of a pause."""

    what: What
    of: str = ""
    direction: str = ""


GLOBAL = "global"
"""Priority of a pause that stops the whole link (IEEE 802.3x)."""
_DIRECTIONS = {"rx": "receive", "tx": "transmit", "rd": "read", "wr": "write"}

_MEANINGS: tuple[tuple[re.Pattern[str], What], ...] = tuple(
    (re.compile(pattern, re.ASCII), what)
    for pattern, what in (
        # mlx5 (kernel Documentation/.../mlx5/counters.rst): a priority only while PFC is on for it.
        (r"(?P<way>rx|tx)_prio(?P<of>[0-7])_pause", What.PAUSE),
        (r"(?P<way>rx|tx)_(?P<of>global)_pause", What.PAUSE),
        (r"(?P<way>rx|tx)_prio(?P<of>[0-7])_pause_duration", What.PAUSE_MICROSECONDS),
        (r"(?P<way>rx|tx)_(?P<of>global)_pause_duration", What.PAUSE_MICROSECONDS),
        (r"outbound_pci_stalled_(?P<way>rd|wr)", What.PCI_STALL_PERCENT),
        # bnxt
        (r"(?P<way>rx|tx)_pfc_ena_frames_pri(?P<of>[0-7])", What.PAUSE),
        (r"(?P<way>rx|tx)_pause_frames", What.PAUSE),
        (r"pfc_pri(?P<of>[0-7])_(?P<way>rx|tx)_duration_us", What.PAUSE_MICROSECONDS),
        # ice
        (r"(?P<way>rx|tx)_priority_(?P<of>[0-7])_xoff\.nic", What.PAUSE),
        (r"link_xoff_(?P<way>rx|tx)\.nic", What.PAUSE),
    )
)
_ERRORS = frozenset((
    # mlx5
    "rx_discards_phy", "tx_discards_phy", "rx_crc_errors_phy", "rx_symbol_err_phy",
    "rx_pcs_symbol_err_phy", "rx_corrected_bits_phy", "link_down_events_phy", "rx_out_of_buffer",
    "rx_steer_missed_packets", "tx_pause_storm_warning_events", "tx_pause_storm_error_events",
    "outbound_pci_stalled_rd_events", "outbound_pci_stalled_wr_events",
    "rx_pci_signal_integrity", "tx_pci_signal_integrity", "module_bus_stuck", "module_high_temp",
    # bnxt
    "rx_fcs_err_frames", "rx_pcs_symbol_err", "rx_corrected_bits", "rx_fec_uncorrectable_blocks",
    "link_down_events", "rx_stat_discard", "tx_stat_discard", "rx_stat_err", "tx_stat_error",
    "continuous_pause_events", "continuous_roce_pause_events",
    # ice
    "rx_crc_errors.nic", "illegal_bytes.nic", "rx_dropped.nic", "tx_errors.nic", "tx_timeout.nic",
    "tx_dropped_link_down.nic", "mac_local_faults.nic", "mac_remote_faults.nic",
    # ena: the limits of the instance type
    "bw_in_allowance_exceeded", "bw_out_allowance_exceeded", "pps_allowance_exceeded",
    "conntrack_allowance_exceeded", "linklocal_allowance_exceeded", "tx_timeout", "wd_expired",
))  # fmt: skip
_ALONE = frozenset((
    "rx_discards_phy", "tx_discards_phy", "rx_crc_errors_phy", "link_down_events_phy",
    "rx_out_of_buffer", "tx_pause_storm_warning_events", "tx_pause_storm_error_events",
    "module_bus_stuck", "module_high_temp",
    "rx_fcs_err_frames", "link_down_events", "continuous_pause_events",
    "rx_crc_errors.nic", "tx_timeout.nic", "tx_timeout", "wd_expired",
))  # fmt: skip
"""Errors whose first count matters."""
_LANE = re.compile(r"rx_err_lane_[0-7]_phy", re.ASCII)
_BY_PRIORITY = re.compile(
    r"rx_prio[0-7]_(?P<of>buf_discard|cong_discard|discards|marked)", re.ASCII
)


def is_alone(one: Meaning) -> bool:
    """Whether a statistic is told on its own also while it is 0."""
    if one.what is What.ERROR:
        return one.of in _ALONE
    return one.what is What.PCI_STALL_PERCENT or one.of == GLOBAL


def meaning(name: str) -> Meaning | None:
    """What a statistic means, or None where it is none of ours.

    Several names may mean the same (mlx5's discards of eight priorities, which would be 32 series
    a device): their values are to be added.
    """
    if name in _ERRORS or _LANE.fullmatch(name):
        return Meaning(What.ERROR, name)
    if match := _BY_PRIORITY.fullmatch(name):
        return Meaning(What.ERROR, f"rx_prio_{match['of']}")
    for pattern, what in _MEANINGS:
        if match := pattern.fullmatch(name):
            of = match.groupdict().get("of", "")
            if not of and what is not What.PCI_STALL_PERCENT:
                of = GLOBAL
            return Meaning(what, of, _DIRECTIONS[match["way"]])
    return None
