"""Reading to samples, one file a subject; and which source feeds which collector, how often."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from collector.clock import Clock
from collector.collectors import (
    clock_state,
    disk,
    gpu,
    host,
    host_temperature,
    memory_trouble,
    monitor,
    network_stack,
    run_queue,
    simulated_gpu,
    throttling,
    training,
)
from collector.config import Config, ConfigError, nearest
from collector.contract.metrics import Sample
from collector.counters import Falls
from collector.precedence import Ranked
from collector.reading import RankProcess
from collector.sources import Source
from collector.sources.cgroup import Cgroups
from collector.sources.cgroup_tree import CgroupTree
from collector.sources.dcgm import Dcgm
from collector.sources.dcgm_exporter import DcgmExporter
from collector.sources.diskstats import Diskstats
from collector.sources.identity import Identity
from collector.sources.kernel_clock import KernelClock
from collector.sources.nvml import Nvml
from collector.sources.own_process import OwnProcessStat
from collector.sources.procfs import Procfs
from collector.sources.rank_ring import RankRings, scan
from collector.sources.replay import Replay
from collector.sources.schedstat import Schedstat
from collector.sources.simulated import SimulatedGpus
from collector.sources.softnet import SoftnetStat
from collector.sources.tcp import TcpCounters
from collector.sources.thermal import ThermalZones
from collector.sources.vmstat import Vmstat

DEADLINE_SECONDS = 2.0
"""A reading that takes longer is stalled: on the page well within five seconds."""

R_contra = TypeVar("R_contra", contravariant=True)


class Collector(Protocol[R_contra]):
    """Turns one reading into samples; pure."""

    def __call__(self, reading: R_contra, /) -> Iterable[Sample]:
        """Fresh samples; what the reading does not hold is not emitted."""
        ...


@dataclass(frozen=True, slots=True)
class Feed:
    """A source, what becomes of its readings, its period and deadline in seconds.

    `falls` says what a counter of it that reads less than before means.
    """

    source: Source[Any]
    collect: Collector[Any]
    period: float
    deadline: float = DEADLINE_SECONDS
    falls: Falls = Falls.TOLD


COLLECTORS: tuple[tuple[str, Collector[Any]], ...] = (
    (RankRings.name, training.collect),
    (Cgroups.name, throttling.collect),
    (Schedstat.name, run_queue.collect),
    (SimulatedGpus.name, simulated_gpu.collect),
    (Replay.name, gpu.collect),
    (Nvml.name, gpu.collect),
    (Dcgm.name, gpu.collect),
    (DcgmExporter.name, gpu.collect),
    (Procfs.name, host.collect),
    (Diskstats.name, disk.collect),
    (SoftnetStat.name, network_stack.collect_softnet),
    (TcpCounters.name, network_stack.collect_tcp),
    (Vmstat.name, memory_trouble.collect),
    (CgroupTree.name, throttling.collect_node),
    (ThermalZones.name, host_temperature.collect),
    (KernelClock.name, clock_state.collect),
    (Identity.name, host.collect_identity),
    (OwnProcessStat.name, monitor.collect),
)
"""Which collector reads which source, in the order of the page."""


FALLS: dict[str, Falls] = {
    Procfs.name: Falls.HOLD,
    "nvml": Falls.CARRY,
    "dcgm": Falls.CARRY,
    "dcgm_exporter": Falls.CARRY,
}
"""What a falling counter of a source means, where it is not told as it is."""


SLOW: frozenset[str] = frozenset((
    CgroupTree.name, Identity.name, KernelClock.name, OwnProcessStat.name, ThermalZones.name,
    Vmstat.name,
))  # fmt: skip
"""Sources of what changes slowly or costs much to read."""


def feeds(config: Config, clock: Clock) -> tuple[Feed, ...]:
    """The feeds that the settings ask for.

    Raises:
        ConfigError: The settings name a source that does not exist.
    """
    known = [name for name, _ in COLLECTORS]
    wanted = known if config.sources is None else config.sources
    for name in wanted:
        if name not in known:
            raise ConfigError(f"collector.sources: unknown source {name}; {nearest(name, known)}")
    build = _sources(config, clock)
    return tuple(
        Feed(
            build[name](),
            collect,
            config.slow_period if name in SLOW else config.fast_period,
            falls=FALLS.get(name, Falls.TOLD),
        )
        for name, collect in COLLECTORS
        if name in wanted
    )


def _sources(config: Config, clock: Clock) -> dict[str, Callable[[], Source[Any]]]:
    proc, folder = config.proc, config.lockstep_dir

    def living_ranks() -> list[RankProcess]:
        ranks, _ = scan(folder, proc, clock)
        return [RankProcess(*rank.key, rank.header.identity.pid) for rank in ranks if rank.up]

    # A capture is played in place of this machine's GPUs; of those, one source feeds the page.
    replay = Ranked(Replay(config.replay, clock))
    nvml = Ranked(Nvml(proc, config.sys, clock, config.slow_period), [replay])
    dcgm = Ranked(Dcgm(), [replay, nvml])
    return {
        Replay.name: lambda: replay,
        Nvml.name: lambda: nvml,
        Dcgm.name: lambda: dcgm,
        DcgmExporter.name: lambda: Ranked(DcgmExporter(config.dcgm_exporter), [replay, nvml, dcgm]),
        RankRings.name: lambda: RankRings(folder, proc, clock),
        Cgroups.name: lambda: Cgroups(proc, config.sys, living_ranks),
        Schedstat.name: lambda: Schedstat(proc, living_ranks),
        SimulatedGpus.name: lambda: SimulatedGpus(folder, proc, clock),
        Procfs.name: lambda: Procfs(proc),
        Diskstats.name: lambda: Diskstats(proc),
        SoftnetStat.name: lambda: SoftnetStat(proc),
        TcpCounters.name: lambda: TcpCounters(proc),
        Vmstat.name: lambda: Vmstat(proc),
        CgroupTree.name: lambda: CgroupTree(config.sys),
        ThermalZones.name: lambda: ThermalZones(config.sys),
        KernelClock.name: KernelClock,
        Identity.name: lambda: Identity(proc, config.node),
        OwnProcessStat.name: lambda: OwnProcessStat(proc),
    }
