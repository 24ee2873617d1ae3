"""The node itself: processors, memory, disks, heat, clock, and which machine it is."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import (
    CPU_THERMAL_THROTTLED,
    CPU_THERMAL_THROTTLES,
    HOST_TEMPERATURE,
    Sample,
)
from lockstep.collector.sources.host.diskstats import Disks
from lockstep.collector.sources.host.identity import MachineIdentity
from lockstep.collector.sources.host.kernel_clock import ClockState
from lockstep.collector.sources.host.procfs import CPU_MODES, LOAD_WINDOWS, Host
from lockstep.collector.sources.host.thermal import HostTemperature
from lockstep.collector.sources.host.thermal_throttle import ThermalThrottle
from lockstep.collector.sources.host.vmstat import VirtualMemory

_MEMORY = {
    "free": m.MEMORY_FREE,
    "cached": m.MEMORY_CACHED,
    "shared": m.MEMORY_SHARED,
    "dirty": m.MEMORY_DIRTY,
    "writeback": m.MEMORY_WRITEBACK,
    "swap": m.MEMORY_SWAP,
    "swap_free": m.MEMORY_SWAP_FREE,
}


def collect_host(host: Host) -> Iterator[Sample]:
    """One sample for everything that procfs answered."""
    for mode, seconds in zip(CPU_MODES, host.cpu_seconds or (), strict=False):
        yield m.HOST_CPU(seconds, mode)
    if host.cpu_count is not None:
        yield m.HOST_CPUS(host.cpu_count)
    for window, load in zip(LOAD_WINDOWS, host.load or (), strict=False):
        yield m.HOST_LOAD(load, window)
    if host.memory is not None:
        yield m.HOST_MEMORY_TOTAL(host.memory.total)
        yield m.HOST_MEMORY_AVAILABLE(host.memory.available)
        for part, size in host.memory.parts:
            yield _MEMORY[part](size)
    for resource, scope, seconds in host.pressure:
        yield m.PRESSURE(seconds, resource, scope)


def collect_identity(machine: MachineIdentity) -> Iterator[Sample]:
    """The names of the machine."""
    emulated = "true" if machine.emulated else "false"
    yield m.NODE_INFO(1, machine.hostname, machine.kernel, machine.boot_id, emulated)
    yield m.BOOT_INFO(1, machine.boot_id)
    if machine.boot_time is not None:
        yield m.BOOT_TIME(machine.boot_time)


def collect_disks(reading: Disks) -> Iterator[Sample]:
    """Eight samples a disk."""
    for disk in reading.disks:
        for metric, pair in (
            (m.DISK_BYTES, disk.bytes),
            (m.DISK_OPERATIONS, disk.operations),
            (m.DISK_TIME, disk.seconds),
        ):
            yield metric(pair[0], disk.device, "read")
            yield metric(pair[1], disk.device, "write")
        yield m.DISK_BUSY(disk.busy_seconds, disk.device)
        yield m.DISK_IN_FLIGHT(disk.in_flight, disk.device)


def collect_memory_trouble(reading: VirtualMemory) -> Iterator[Sample]:
    """One sample for each count that the kernel keeps."""
    if reading.oom_kills is not None:
        yield m.OOM_KILLS(reading.oom_kills)
    if reading.numa_misses is not None:
        yield m.NUMA_MISSES(reading.numa_misses)


def collect_temperatures(reading: HostTemperature) -> Iterator[Sample]:
    """One sample a thermal zone or sensor."""
    for zone in reading.zones:
        yield HOST_TEMPERATURE(zone.celsius, zone.place, zone.kind)


def collect_thermal_throttles(reading: ThermalThrottle) -> Iterator[Sample]:
    """A count, and a time where the kernel keeps one, for cores and for packages."""
    for level, count in reading.counts.items():
        yield CPU_THERMAL_THROTTLES(count, level)
    for level, seconds in reading.seconds.items():
        yield CPU_THERMAL_THROTTLED(seconds, level)


def collect_clock(clock: ClockState) -> Iterator[Sample]:
    """The kernel's own word on its clock."""
    yield m.CLOCK_OFFSET(clock.offset)
    yield m.CLOCK_MAX_ERROR(clock.max_error)
    yield m.CLOCK_SYNCHRONIZED(int(clock.synchronized))
