"""What the statistics of NIC drivers mean, by the names that the drivers give them.

Tables by driver, from the kernel's drivers/net/ethernet (*_ethtool.c) and drivers/net/virtio_net.c.
What netdev counts in /proc/net/dev is not here again.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple


class What(StrEnum):
    """What a statistic counts."""

    PAUSE = "pause"
    """Pause frames."""
    PAUSE_MICROSECONDS = "pause_microseconds"
    """Time under pause."""
    ERROR = "error"
    """Errors, drops and resets of optics, buffers, queues or PCIe."""
    PCI_STALL_PERCENT = "pci_stall_percent"
    """Share of the last second, 0 to 100."""


class Meaning(NamedTuple):
    """What a statistic counts; `of` is the kind of an error, the priority of a pause."""

    what: What
    of: str = ""
    direction: str = ""


class Known(NamedTuple):
    """A statistic that is known.

    Attributes:
        part: One of several that are added up, as of a queue; where the driver tells the sum by
            itself, that is taken.
    """

    meaning: Meaning
    part: bool = False


GLOBAL = "global"
"""Priority of a pause that stops the whole link (IEEE 802.3x)."""
ANY = "any"
"""Priority of pauses that a driver adds up over all; used where it has none by itself."""
_DIRECTIONS = {"rx": "receive", "tx": "transmit", "rd": "read", "wr": "write"}

ERRORS: Mapping[str, tuple[str, ...]] = {
    "mlx5_core": (
        "rx_discards_phy", "tx_discards_phy", "tx_errors_phy", "rx_crc_errors_phy",
        "rx_symbol_err_phy", "rx_pcs_symbol_err_phy", "rx_corrected_bits_phy",
        "rx_in_range_len_errors_phy", "rx_oversize_pkts_phy", "link_down_events_phy",
        "rx_out_of_buffer", "rx_steer_missed_packets", "rx_wqe_err", "rx_buff_alloc_err",
        "rx_oversize_pkts_sw_drop", "rx_oversize_pkts_buffer", "rx_recover", "tx_recover",
        "tx_queue_dropped", "tx_cqe_err", "tx_pause_storm_warning_events",
        "tx_pause_storm_error_events", "outbound_pci_stalled_rd_events",
        "outbound_pci_stalled_wr_events", "rx_pci_signal_integrity", "tx_pci_signal_integrity",
        "module_bus_stuck", "module_high_temp",
    ),
    "bnxt_en": (
        "rx_fcs_err_frames", "rx_align_err_frames", "rx_pcs_symbol_err", "rx_corrected_bits",
        "rx_fec_uncorrectable_blocks", "link_down_events", "rx_stat_discard", "tx_stat_discard",
        "rx_stat_err", "tx_stat_error", "tx_err", "tx_fifo_underruns", "continuous_pause_events",
        "continuous_roce_pause_events", "rx_total_resets", "tx_total_resets", "rx_total_buf_errors",
        "rx_total_oom_discards", "rx_total_netpoll_discards", "rx_total_ring_discards",
        "tx_total_ring_discards", "rx_total_discard_pkts", "tx_total_discard_pkts",
        "total_missed_irqs",
    ),
    "i40e": (
        "port.rx_dropped", "port.rx_discards", "port.tx_dropped_link_down", "port.tx_errors",
        "port.rx_crc_errors", "port.rx_length_errors", "port.illegal_bytes",
        "port.mac_local_faults", "port.mac_remote_faults", "port.tx_timeout", "veb.rx_discards",
        "veb.tx_discards", "veb.tx_errors", "tx_lost_interrupt", "rx_alloc_fail",
        "rx_pg_alloc_fail",
    ),
    "ice": (
        "rx_crc_errors.nic", "rx_length_errors.nic", "illegal_bytes.nic", "rx_dropped.nic",
        "tx_errors.nic", "tx_timeout.nic", "tx_dropped_link_down.nic", "mac_local_faults.nic",
        "mac_remote_faults.nic", "rx_alloc_fail", "rx_pg_alloc_fail",
    ),
    "iavf": ("rx_discards", "tx_discards"),
    # Of ena, those that are exceeded are the limits of the instance type.
    "ena": (
        "bw_in_allowance_exceeded", "bw_out_allowance_exceeded", "pps_allowance_exceeded",
        "conntrack_allowance_exceeded", "linklocal_allowance_exceeded", "tx_timeout", "wd_expired",
        "total_resets", "reset_fail", "bad_tx_req_id", "bad_rx_req_id", "bad_rx_desc_num",
        "missing_intr", "missing_first_intr", "missing_admin_interrupt", "missing_tx_cmpl",
        "suspected_poll_starvation", "rx_desc_malformed", "tx_desc_malformed", "invalid_state",
        "os_netdev_wd", "admin_to", "device_request_reset", "ena_admin_q_no_completion",
        "ena_admin_q_out_of_space",
    ),
    "mana": (
        "hc_rx_discards_no_wqe", "hc_rx_err_vport_disabled", "hc_tx_err_gf_disabled",
        "hc_tx_err_vport_disabled", "hc_tx_err_inval_vportoffset_pkt", "hc_tx_err_vlan_enforcement",
        "hc_tx_err_eth_type_enforcement", "hc_tx_err_sa_enforcement",
        "hc_tx_err_sqpdid_enforcement", "hc_tx_err_cqpdid_enforcement", "hc_tx_err_mtu_violation",
        "hc_tx_err_inval_oob", "hc_tx_err_gdma", "hc_rx_pkt_drop_phy", "hc_tx_pkt_drop_phy",
        "tx_cqe_err", "tx_cqe_unknown_type", "rx_cqe_unknown_type",
    ),
    "virtio_net": (
        "rx_drops", "tx_tx_timeouts", "tx_timeouts", "rx_hw_drops", "rx_hw_drop_overruns",
        "tx_hw_drops", "tx_hw_drop_malformed",
    ),
}  # fmt: skip
"""What went wrong, by driver; no name means different things in two of them."""
ALONE = frozenset((
    "rx_discards_phy", "tx_discards_phy", "rx_crc_errors_phy", "link_down_events_phy",
    "rx_out_of_buffer", "tx_pause_storm_warning_events", "tx_pause_storm_error_events",
    "module_bus_stuck", "module_high_temp",
    "rx_fcs_err_frames", "link_down_events", "continuous_pause_events",
    "rx_total_ring_discards", "rx_total_resets", "tx_total_resets",
    "port.rx_crc_errors", "port.tx_timeout", "rx_crc_errors.nic", "tx_timeout.nic",
    "tx_timeout", "wd_expired", "total_resets",
))  # fmt: skip
"""Errors whose first count matters."""


class _Form(NamedTuple):
    """Names of one form: what stands in them is the direction, the priority, the kind.

    Attributes:
        part: As of Known.
        kind: Of an error, the priority of a pause; with what the name has for it.
    """

    pattern: re.Pattern[str]
    what: What
    part: bool = False
    kind: str = "{of}"


_ROWS: Mapping[str, tuple[tuple[Any, ...], ...]] = {
    # Documentation/networking/.../mlx5/counters.rst: a priority only while PFC is on for it.
    # Discards of eight priorities would be 32 series a device: they are added.
    "mlx5_core": (
        (r"(?P<way>rx|tx)_prio(?P<of>[0-7])_pause", What.PAUSE),
        (r"(?P<way>rx|tx)_(?P<of>global)_pause", What.PAUSE),
        (r"(?P<way>rx|tx)_prio(?P<of>[0-7])_pause_duration", What.PAUSE_MICROSECONDS),
        (r"(?P<way>rx|tx)_(?P<of>global)_pause_duration", What.PAUSE_MICROSECONDS),
        (r"outbound_pci_stalled_(?P<way>rd|wr)", What.PCI_STALL_PERCENT),
        (r"(?P<of>rx_err_lane_[0-7]_phy)", What.ERROR),
        (
            r"rx_prio[0-7]_(?P<of>buf_discard|cong_discard|discards|marked)",
            What.ERROR,
            True,
            "rx_prio_{of}",
        ),
    ),
    "bnxt_en": (
        (r"(?P<way>rx|tx)_pfc_ena_frames_pri(?P<of>[0-7])", What.PAUSE),
        (r"(?P<way>rx|tx)_pause_frames", What.PAUSE),
        (r"(?P<way>rx|tx)_pfc_frames", What.PAUSE, False, ANY),
        (r"rx_discard_packets_cos[0-7]", What.ERROR, True, "rx_discard_packets_cos"),
        (r"\[[0-9]{1,4}\]: (?P<of>rx|tx)_discards", What.ERROR, True, "{of}_total_ring_discards"),
        (r"\[[0-9]{1,4}\]: (?P<of>rx|tx)_errors", What.ERROR, True, "{of}_ring_errors"),
        (r"pfc_pri(?P<of>[0-7])_(?P<way>rx|tx)_duration_us", What.PAUSE_MICROSECONDS),
    ),
    "i40e": (
        (r"port\.(?P<way>rx|tx)_priority_(?P<of>[0-7])_xoff", What.PAUSE),
        (r"port\.link_xoff_(?P<way>rx|tx)", What.PAUSE),
    ),
    "ice": (
        (r"(?P<way>rx|tx)_priority_(?P<of>[0-7])_xoff\.nic", What.PAUSE),
        (r"link_xoff_(?P<way>rx|tx)\.nic", What.PAUSE),
    ),
    "ena": (
        (
            r"queue_[0-9]{1,4}_(?P<of>rx_(?:page_alloc_fail|skb_alloc_fail|dma_mapping_err))",
            What.ERROR,
            True,
            "queue_{of}",
        ),
        (
            r"queue_[0-9]{1,4}_(?P<of>rx_(?:bad_desc_num|bad_req_id|empty_rx_ring))",
            What.ERROR,
            True,
            "queue_{of}",
        ),
        (
            r"queue_[0-9]{1,4}_(?P<of>tx_(?:dma_mapping_err|prepare_ctx_err|bad_req_id))",
            What.ERROR,
            True,
            "queue_{of}",
        ),
        (
            r"queue_[0-9]{1,4}_(?P<of>tx_(?:missed_tx|missing_tx_comp))",
            What.ERROR,
            True,
            "queue_{of}",
        ),
    ),
    "mana": ((r"hc_tc(?P<of>[0-7])_(?P<way>rx|tx)_pause_phy", What.PAUSE),),
    "virtio_net": (
        (r"rx(?:_queue_)?[0-9]{1,4}_drops", What.ERROR, True, "rx_drops"),
        (r"tx(?:_queue_)?[0-9]{1,4}_tx_timeouts", What.ERROR, True, "tx_tx_timeouts"),
    ),
}
FORMS: Mapping[str, tuple[_Form, ...]] = {
    driver: tuple(_Form(re.compile(pattern, re.ASCII), *more) for pattern, *more in rows)
    for driver, rows in _ROWS.items()
}  # fmt: skip
"""Names with numbers in them, by driver."""


def _exact() -> Iterator[tuple[str, Known]]:
    for names in ERRORS.values():
        for name in names:
            yield name, Known(Meaning(What.ERROR, name))


_EXACT = dict(_exact())
_FORMS = tuple(form for forms in FORMS.values() for form in forms)


def is_alone(meaning: Meaning) -> bool:
    """Whether a statistic is exported on its own also while it is 0."""
    if meaning.what is What.ERROR:
        return meaning.of in ALONE
    return meaning.what is What.PCI_STALL_PERCENT or meaning.of == GLOBAL


def known(name: str) -> Known | None:
    """What a statistic means and whether it is a part, or None where it is none of ours."""
    if name in _EXACT:
        return _EXACT[name]
    for form in _FORMS:
        if match := form.pattern.fullmatch(name):
            return Known(_meaning(form, match.groupdict()), form.part)
    return None


TROUBLE = re.compile(
    r"err|drop|discard|pause|crc|timeout|reset|fail|fault|overr|miss|lost|no_buf", re.ASCII
)
"""Of a driver's statistics: names that say that something went wrong, whether known or not."""


def meaning(name: str) -> Meaning | None:
    """What a statistic means, or None where it is none of ours."""
    statistic = known(name)
    return None if statistic is None else statistic.meaning


def _meaning(form: _Form, groups: Mapping[str, str]) -> Meaning:
    of = groups.get("of", "")
    of = form.kind.format(of=of)
    if form.what is What.ERROR:
        return Meaning(What.ERROR, of)
    if not of and form.what is not What.PCI_STALL_PERCENT:
        of = GLOBAL
    return Meaning(form.what, of, _DIRECTIONS[groups["way"]])
