"""Ports of InfiniBand, RoCE and EFA: their links, traffic, congestion and errors."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.infiniband import Port, Ports
from lockstep.collector.sources.infiniband.errors import ErrorsOfPorts

_WORDS = m.IB_INFO.labels[2:]


def collect(reading: Ports) -> Iterator[Sample]:
    """What changes each second."""
    for port in reading.ports:
        yield from _port(port)


def collect_errors(reading: ErrorsOfPorts) -> Iterator[Sample]:
    """Identity and errors."""
    for port in reading.ports:
        key = (port.device, port.port)
        yield m.IB_INFO(1, *key, *(port.words.get(label, "") for label in _WORDS))
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
