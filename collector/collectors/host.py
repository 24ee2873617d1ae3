"""The host's processors, memory and pressure, and which machine it is."""

from collections.abc import Iterator

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.identity import MachineIdentity
from lockstep.collector.sources.procfs import CPU_MODES, LOAD_WINDOWS, Host

_MEMORY = {
    "free": m.MEMORY_FREE,
    "cached": m.MEMORY_CACHED,
    "shared": m.MEMORY_SHARED,
    "dirty": m.MEMORY_DIRTY,
    "writeback": m.MEMORY_WRITEBACK,
    "swap": m.MEMORY_SWAP,
    "swap_free": m.MEMORY_SWAP_FREE,
}


def collect(host: Host) -> Iterator[Sample]:
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
