"""How often and how long heat held the processors back."""

from collections.abc import Iterator

from lockstep.collector.contract.metrics import CPU_THERMAL_THROTTLED, CPU_THERMAL_THROTTLES, Sample
from lockstep.collector.sources.thermal_throttle import ThermalThrottle


def collect(reading: ThermalThrottle) -> Iterator[Sample]:
    """A count, and a time where the kernel keeps one, for cores and for packages."""
    for level, count in reading.counts.items():
        yield CPU_THERMAL_THROTTLES(count, level)
    for level, seconds in reading.seconds.items():
        yield CPU_THERMAL_THROTTLED(seconds, level)
