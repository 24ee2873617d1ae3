"""What the host's network stack dropped, put off and sent again."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.softnet import Softnet
from lockstep.collector.sources.tcp import Tcp

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
