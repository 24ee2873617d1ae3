"""Network devices: their links and traffic."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.netdev import Link, NetworkDevices


def collect(reading: NetworkDevices) -> Iterator[Sample]:
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
