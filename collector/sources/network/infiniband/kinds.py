"""Which counters of an RDMA port are read, by the names that kernel and drivers give them."""

from collections.abc import Mapping

from lockstep.collector.contract.metric_rows import alerted
from lockstep.collector.contract.words import XMIT_WAIT as XMIT_WAIT_REGISTER
from lockstep.collector.readings.source import Rejected
from lockstep.collector.sources.network.infiniband.tree import Place, Trying

PORT_ERRORS_OF_ETHERNET = frozenset((
    "symbol_error", "link_downed", "port_rcv_errors", "port_xmit_discards",
))  # fmt: skip
"""Those of PORT_ERRORS that mean something on a RoCE port; its PHY is read by ethtool."""
ALONE = frozenset((
    *alerted.PORT_ERRORS, *alerted.RDMA_ERRORS_FATAL, "port_rcv_errors", "max_retry_exceeded",
))  # fmt: skip
"""Errors whose first count matters (NVSentinel's rules for NICs): told on their own also at 0."""

TRANSPORT = frozenset((
    # mlx5
    "out_of_sequence", "packet_seq_err", "duplicate_request", "out_of_buffer",
    "local_ack_timeout_err", "rnr_nak_retry_err", "implied_nak_seq_err", "req_cqe_error",
    "resp_cqe_error", "req_remote_access_errors", "rx_dct_connect",
    # bnxt_re
    "to_retransmits", "seq_err_naks_rcvd", "max_retry_exceeded", "rnr_naks_rcvd", "missing_resp",
    "oos_drop_count", "rx_out_of_buffer", "rx_roce_discards", "rx_roce_errors",
    # efa
    "rx_drops", "rdma_read_wr_err", "rdma_write_wr_err", "retrans_pkts", "retrans_timeout_events",
    "impaired_remote_conn_events", "unresponsive_remote_events",
    # irdma (drivers/infiniband/hw/irdma/verbs.c; names of older kernels after those of newer)
    "RetransSegs", "tcpRetransSegs", "InProtoErrors", "tcpInProtoErrors", "InOptErrors",
    "tcpInOptErrors", "ip4InDiscards", "ip6InDiscards", "ip4InTruncatedPkts", "ip6InTruncatedPkts",
    "ip4OutNoRoutes", "ip6OutNoRoutes", "rxVlanErrors", "RNR sent", "RNR received",
    # rxe
    "out_of_seq_request", "rcvd_rnr_err", "rcvd_seq_err", "retry_exceeded_err", "send_err",
))  # fmt: skip
"""What went wrong between two ends of a connection, from `hw_counters/`."""
CONGESTION = frozenset((
    # mlx5
    "np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled", "rp_cnp_ignored",
    "roce_adp_retrans", "roce_slow_restart", "roce_slow_restart_cnps", "roce_slow_restart_trans",
    "rx_icrc_encapsulated",
    # bnxt_re
    "tx_cnp_pkts", "rx_cnp_pkts", "rx_ecn_marked_pkts",
    # irdma
    "cnpSent", "cnpHandled", "cnpIgnored", "RxECNMrkd",
))  # fmt: skip
"""How RoCE slowed down, from `hw_counters/`; an InfiniBand link has credits in their place."""
HARDWARE = TRANSPORT | CONGESTION
FAST = frozenset((
    "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "out_of_buffer",
    "np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled", "roce_slow_restart",
    "tx_cnp_pkts", "rx_cnp_pkts", "rx_ecn_marked_pkts",
    "RetransSegs", "tcpRetransSegs", "cnpSent", "cnpHandled", "RxECNMrkd",
))  # fmt: skip
"""Counters of `hw_counters/` that are read each second: what changes while steps are slow."""

Places = tuple[tuple[str, int], ...]
Counts = dict[str, tuple[str, int]]
"""By name, the file below the port's folder and how much one count of it is."""
DATA: Mapping[str, Places] = {
    "transmit": (
        ("counters_ext/port_xmit_data_64", 4), ("counters/port_xmit_data", 4),
        ("hw_counters/tx_bytes", 1),
    ),
    "receive": (
        ("counters_ext/port_rcv_data_64", 4), ("counters/port_rcv_data", 4),
        ("hw_counters/rx_bytes", 1),
    ),
}  # fmt: skip
"""Where the bytes of a direction are and how many one count is; the first place that exists holds.

`counters/` counts words of 4 bytes; EFA and Broadcom count bytes.
"""
PACKETS: Mapping[str, Places] = {
    "transmit": (
        ("counters_ext/port_xmit_packets_64", 1), ("counters/port_xmit_packets", 1),
        ("hw_counters/tx_pkts", 1),
    ),
    "receive": (
        ("counters_ext/port_rcv_packets_64", 1), ("counters/port_rcv_packets", 1),
        ("hw_counters/rx_pkts", 1),
    ),
}  # fmt: skip
XMIT_WAIT: Places = ((f"counters/{XMIT_WAIT_REGISTER}", 1),)


# Registers that stop at their maximum: one that stands there is unknown, and no count.

WIDTHS: Mapping[str, int] = {
    "symbol_error": 16, "link_error_recovery": 8, "link_downed": 8, "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16, "port_rcv_switch_relay_errors": 16,
    "port_xmit_discards": 16, "port_xmit_constraint_errors": 8, "port_rcv_constraint_errors": 8,
    "local_link_integrity_errors": 4, "excessive_buffer_overrun_errors": 4, "VL15_dropped": 16,
    "port_xmit_data": 32, "port_rcv_data": 32, "port_xmit_packets": 32, "port_rcv_packets": 32,
    "port_xmit_wait": 32,
}  # fmt: skip
"""Bits of the registers under `counters/` (InfiniBand architecture 16.1.3.5, PortCounters; the
third number of PORT_PMA_ATTR in drivers/infiniband/core/sysfs.c). They stop at their maximum."""
WIDE = ((1 << 32) - 1, (1 << 64) - 1)
"""Where other registers stop, `hw_counters/` and those whose wide set is read: 32 or 64 bits."""


def is_saturated(file: str, count: int) -> bool:
    """Whether a register stands at its maximum: how much it has missed since then, nobody knows.

    A count beyond the maximum is of a driver that keeps more bits than the architecture's.

    Args:
        file: Of the register, below the port's folder, as `counters/link_downed`.
        count: What it reads.
    """
    group, _, name = file.partition("/")
    bits = WIDTHS.get(name, 0) if group == "counters" else 0
    return count in WIDE or count == (1 << bits) - 1 > 0


class Saturation:
    """Which registers stand, between readings: each is listed once, and again after a reset."""

    def __init__(self) -> None:
        self._standing: dict[Place, frozenset[str]] = {}

    def note(self, port: Place, standing: frozenset[str], trying: Trying) -> None:
        """These of a port stand at their maximum now."""
        new = standing - self._standing.get(port, frozenset())
        self._standing[port] = standing
        if new:
            words = f"RDMA device {port.device} port {port.port}"
            trying.rejected.append(
                Rejected(
                    "saturated",
                    f"{words}: {', '.join(sorted(new))} stand at their maximum and count no more;"
                    " `perfquery -R` sets a port's counters back",
                )
            )

    def keep(self, places: list[Place]) -> None:
        """Forget ports that are not there any more."""
        self._standing = {one: self._standing[one] for one in places if one in self._standing}
