"""Ethernet below the packets: pauses, errors of optics and buffers, PCIe stalls."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.ethtool import NicStatistics
from lockstep.collector.sources.ethtool.names import What


def collect(reading: NicStatistics) -> Iterator[Sample]:
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
