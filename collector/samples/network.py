"""Ports, devices and the network stack: links, traffic, congestion and errors."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.network.ethtool.names import What
from lockstep.collector.sources.network.ethtool.source import NicStatistics
from lockstep.collector.sources.network.infiniband.errors import ErrorsOfPorts
from lockstep.collector.sources.network.infiniband.source import Port, Ports
from lockstep.collector.sources.network.netdev.source import Link, NetworkDevices
from lockstep.collector.sources.network.softnet import Softnet
from lockstep.collector.sources.network.tcp import Tcp

_PORT_WORDS = m.IB_INFO.labels[2:]


def collect_infiniband(reading: Ports) -> Iterator[Sample]:
    """What changes each second."""
    for port in reading.ports:
        yield from _port(port)


def collect_infiniband_errors(reading: ErrorsOfPorts) -> Iterator[Sample]:
    """Identity and errors."""
    for port in reading.ports:
        key = (port.device, port.port)
        yield m.IB_INFO(1, *key, *(port.words.get(label, "") for label in _PORT_WORDS))
        for kind, count in port.errors.items():
            yield m.IB_ERRORS(count, *key, kind)
        for kind, count in port.hardware.items():
            yield m.RDMA_HW_COUNTER(count, *key, kind)
        yield from _saturated(key, port.saturated)


def _saturated(port: tuple[str, str], kinds: frozenset[str]) -> Iterator[Sample]:
    for kind in sorted(kinds):
        yield m.IB_SATURATED(1, *port, kind)


def _port(port: Port) -> Iterator[Sample]:
    key = (port.device, port.port)
    for metric, value in (
        (m.IB_STATE, port.state),
        (m.IB_PHYSICAL_STATE, port.physical_state),
        (m.IB_RATE, port.rate),
        (m.IB_XMIT_WAIT, port.xmit_wait),
    ):
        if value is not None:
            yield metric(value, *key)
    for metric, counts in ((m.IB_DATA, port.data), (m.IB_PACKETS, port.packets)):
        for direction, count in counts.items():
            yield metric(count, *key, direction)
    for kind, count in port.hardware.items():
        yield m.RDMA_HW_COUNTER(count, *key, kind)
    yield from _saturated(key, port.saturated)


def collect_devices(reading: NetworkDevices) -> Iterator[Sample]:
    """Traffic of every device, and what its link told."""
    for traffic, link in reading.devices:
        yield from _link(traffic.device, link)
        for metric, (received, sent) in (
            (m.NET_BYTES, traffic.bytes),
            (m.NET_PACKETS, traffic.packets),
            (m.NET_ERRORS, traffic.errors),
            (m.NET_DROPS, traffic.drops),
        ):
            yield metric(received, traffic.device, "receive")
            yield metric(sent, traffic.device, "transmit")


def _link(device: str, link: Link) -> Iterator[Sample]:
    if link.up is not None:
        yield m.NET_UP(1 if link.up else 0, device)
    for metric, value in (
        (m.NET_CARRIER_CHANGES, link.carrier_changes),
        (m.NET_SPEED, link.speed),
        (m.NET_MTU, link.mtu),
    ):
        if value is not None:
            yield metric(value, device)


def collect_ethernet(reading: NicStatistics) -> Iterator[Sample]:
    """One sample for each statistic with a meaning; microseconds and percent become base units."""
    for device, values in reading.devices:
        for (what, of, direction), value in values.items():
            match what:
                case What.PAUSE:
                    yield m.NET_PAUSE(value, device, of, direction)
                case What.PAUSE_MICROSECONDS:
                    yield m.NET_PAUSE_SECONDS(value / 1e6, device, of, direction)
                case What.ERROR:
                    yield m.NET_PHY_ERRORS(value, device, of)
                case What.PCI_STALL_PERCENT:
                    yield m.NET_PCI_STALLED(value / 100, device, direction)


_TCP = {
    "RetransSegs": m.TCP_RETRANSMITTED,
    "TCPSynRetrans": m.TCP_SYN_RETRANSMITS,
    "TCPTimeouts": m.TCP_TIMEOUTS,
}
_DIRECTIONS = {"InSegs": "receive", "OutSegs": "transmit"}


def collect_softnet(softnet: Softnet) -> Iterator[Sample]:
    """Three samples, summed over processors."""
    yield m.SOFTNET_PROCESSED(softnet.processed)
    yield m.SOFTNET_DROPPED(softnet.dropped)
    yield m.SOFTNET_SQUEEZED(softnet.squeezed)


def collect_tcp(tcp: Tcp) -> Iterator[Sample]:
    """One sample for each count that the kernel told."""
    for name, metric in _TCP.items():
        if name in tcp.counts:
            yield metric(tcp.counts[name])
    for name, direction in _DIRECTIONS.items():
        if name in tcp.counts:
            yield m.TCP_SEGMENTS(tcp.counts[name], direction)
