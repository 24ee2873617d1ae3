"""How warm the host is."""

from collections.abc import Iterator

from lockstep.collector.contract.metrics import HOST_TEMPERATURE, Sample
from lockstep.collector.sources.thermal import HostTemperature


def collect(reading: HostTemperature) -> Iterator[Sample]:
    """One sample a thermal zone or sensor."""
    for zone in reading.zones:
        yield HOST_TEMPERATURE(zone.celsius, zone.place, zone.kind)
