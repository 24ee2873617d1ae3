"""What the page says about network devices and InfiniBand or RoCE ports. One row a metric."""

from lockstep.collector.contract.metric_rows import ranges
from lockstep.collector.contract.metric_rows.shape import Kind, Metric, Unshown

_C, _G = Kind.COUNTER, Kind.GAUGE
_DEVICE, _PORT = ("device",), ("device", "port")

IB_INFO = Metric(
    "lockstep_ib_info", _G,
    (
        "device", "port", "netdev", "board_id", "firmware", "hca_type", "link_layer", "numa",
        "pci_bus_id",
    ),
    "Identity of an InfiniBand, RoCE or EFA port (/sys/class/infiniband).",
    unshown=Unshown.IDENTITY,
)  # fmt: skip
IB_STATE = Metric(
    "lockstep_ib_port_state_id",
    _G,
    _PORT,
    "Logical state: 1 down, 2 init, 3 armed, 4 active.",
    within=ranges.IB_STATE,
)
IB_PHYSICAL_STATE = Metric(
    "lockstep_ib_port_physical_state_id", _G, _PORT,
    "Physical state: 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery.",
    within=ranges.IB_PHYSICAL_STATE,
)  # fmt: skip
IB_RATE = Metric(
    "lockstep_ib_port_rate_bytes_per_second", _G, _PORT,
    "Speed and width that the link has now; 400 Gb/s are 5e10.",
)  # fmt: skip
IB_DATA = Metric(
    "lockstep_ib_port_data_bytes_total", _C, (*_PORT, "direction"),
    "Payload of the port (port_xmit_data and port_rcv_data count words of 4 bytes).",
)  # fmt: skip
IB_PACKETS = Metric(
    "lockstep_ib_port_packets_total", _C, (*_PORT, "direction"),
    "Packets of the port (port_xmit_packets, port_rcv_packets).",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
IB_XMIT_WAIT = Metric(
    "lockstep_ib_port_xmit_wait_total", _C, _PORT,
    "Ticks with something to send and no credit for it: congestion (32 bits; at their end only"
    " lockstep_ib_port_counter_saturated reports it).",
)  # fmt: skip
IB_ERRORS = Metric(
    "lockstep_ib_port_errors_total", _C, (*_PORT, "kind"),
    "Port errors by the kernel's names. One whose small register stands at its maximum is unknown:"
    " only lockstep_ib_port_counter_saturated reports it. kind other = all further kinds, which"
    " have counted nothing yet.",
)  # fmt: skip
IB_SATURATED = Metric(
    "lockstep_ib_port_counter_saturated", _G, (*_PORT, "kind"),
    "1 while a register of the port stands at its maximum (link_downed 255, symbol_error 65535,"
    " port_xmit_wait 4294967295) and counts no more: what it counts is unknown until the port's"
    " counters are set back.",
    unshown=Unshown.EVIDENCE, within=ranges.FLAG,
)  # fmt: skip
RDMA_HW_COUNTER = Metric(
    "lockstep_rdma_hw_counters_total", _C, (*_PORT, "kind"),
    "RDMA transport and congestion counters by the driver's names (hw_counters); kind other = all"
    " further kinds, which have counted nothing yet.",
)  # fmt: skip
NET_UP = Metric(
    "lockstep_net_up", _G, _DEVICE,
    "1 if operstate is up; absent where the driver does not report it.",
    unshown=Unshown.STANDING,
    within=ranges.FLAG,
)  # fmt: skip
NET_CARRIER_CHANGES = Metric(
    "lockstep_net_carrier_changes_total", _C, _DEVICE, "How often the link came or went."
)
NET_SPEED = Metric(
    "lockstep_net_speed_bytes_per_second", _G, _DEVICE, "Speed of the link, absent while down.",
    unshown=Unshown.STANDING,
)  # fmt: skip
NET_MTU = Metric("lockstep_net_mtu_bytes", _G, _DEVICE, "Largest packet.", unshown=Unshown.STANDING)
NET_BYTES = Metric("lockstep_net_bytes_total", _C, ("device", "direction"), "/proc/net/dev.")
NET_PACKETS = Metric(
    "lockstep_net_packets_total", _C, ("device", "direction"), "/proc/net/dev.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
NET_ERRORS = Metric("lockstep_net_errors_total", _C, ("device", "direction"), "/proc/net/dev.")
NET_DROPS = Metric("lockstep_net_drops_total", _C, ("device", "direction"), "/proc/net/dev.")
NET_PAUSE = Metric(
    "lockstep_net_pfc_pause_total", _C, ("device", "priority", "direction"),
    "Pause frames by PFC priority; global = the whole link, other = all further priorities, which"
    " have counted nothing yet (ethtool).",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
NET_PAUSE_SECONDS = Metric(
    "lockstep_net_pfc_pause_seconds_total", _C, ("device", "priority", "direction"),
    "Time under pause by PFC priority; receive = this node was paused; global and other as of"
    " lockstep_net_pfc_pause_total (ethtool).",
)  # fmt: skip
NET_PHY_ERRORS = Metric(
    "lockstep_net_phy_errors_total", _C, ("device", "kind"),
    "Errors, drops and resets of optics, buffers, queues and the PCIe side of the NIC by the"
    " driver's names; kind other = all further kinds, which have counted nothing yet (ethtool).",
)  # fmt: skip
NET_PCI_STALLED = Metric(
    "lockstep_net_pci_stalled_ratio", _G, ("device", "direction"),
    "Share of the last second in which the NIC's PCIe reads or writes were stalled (ethtool).",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
