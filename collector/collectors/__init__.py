"""Reading to samples, one file a subject; and which source feeds which collector, how often."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from collector.clock import Clock
from collector.collectors import (
    allocation,
    clock_state,
    disk,
    ethernet,
    flight_recorder,
    gpu,
    host,
    host_temperature,
    infiniband,
    interfaces,
    memory_trouble,
    monitor,
    nccl_inspector,
    nccl_ras,
    network_stack,
    run_queue,
    simulated_gpu,
    thermal_throttle,
    throttling,
    training,
    xid,
)
from collector.config import Config, ConfigError, nearest
from collector.contract.metrics import Sample
from collector.counters import Falls, Key
from collector.sources import Source
from collector.sources.allocation import Allocation
from collector.sources.cgroup import Cgroups
from collector.sources.cgroup_tree import CgroupTree
from collector.sources.dcgm import Dcgm
from collector.sources.dcgm_exporter import DcgmExporter
from collector.sources.diskstats import Diskstats
from collector.sources.ethtool import Ethtool
from collector.sources.flight_recorder import FlightRecorder
from collector.sources.identity import Identity
from collector.sources.infiniband import Infiniband
from collector.sources.infiniband.errors import InfinibandErrors
from collector.sources.kernel_clock import KernelClock
from collector.sources.kmsg import Kmsg
from collector.sources.nccl_inspector import NcclInspector
from collector.sources.nccl_ras import NcclRas
from collector.sources.netdev import Netdev
from collector.sources.nvml import Nvml
from collector.sources.own_process import OwnProcessStat
from collector.sources.pod_resources import PodResources
from collector.sources.procfs import Procfs
from collector.sources.rank_ring import RankRings
from collector.sources.replay import Replay
from collector.sources.schedstat import Schedstat
from collector.sources.simulated import SimulatedGpus
from collector.sources.softnet import SoftnetStat
from collector.sources.tcp import TcpCounters
from collector.sources.thermal import ThermalZones
from collector.sources.thermal_throttle import ThermalThrottles
from collector.sources.vmstat import Vmstat
from collector.sources.xid import Xids
from collector.wiring import sources

DEADLINE_SECONDS = 2.0
"""A reading that takes longer is stalled: on the page well within five seconds."""

R_contra = TypeVar("R_contra", contravariant=True)


class Collector(Protocol[R_contra]):
    """Turns one reading into samples; pure."""

    def __call__(self, reading: R_contra, /) -> Iterable[Sample]:
        """Fresh samples; what the reading does not hold is not emitted."""
        ...


@runtime_checkable
class Resuming(Protocol):
    """A collector for which it counts what was counted before a restart."""

    def resume(self, counted: Iterable[Key], /) -> None:
        """Go on with these counters, of which none is 0; called before the first reading."""
        ...


@dataclass(frozen=True, slots=True)
class Feed:
    """A source, what becomes of its readings, its period and deadline in seconds.

    `falls` says what a counter of it that reads less than before means. While the source is not
    available, it is looked for every `look` periods. `in_turns`: with others by one thread.
    """

    source: Source[Any]
    collect: Collector[Any]
    period: float
    deadline: float = DEADLINE_SECONDS
    falls: Falls = Falls.TOLD
    look: int = 1
    in_turns: bool = False


COLLECTORS: tuple[tuple[str, Collector[Any] | type[gpu.Collect]], ...] = (
    (RankRings.name, training.collect),
    (Cgroups.name, throttling.collect),
    (Schedstat.name, run_queue.collect),
    (SimulatedGpus.name, simulated_gpu.collect),
    (Replay.name, gpu.Collect),
    (Nvml.name, gpu.Collect),
    (Dcgm.name, gpu.Collect),
    (DcgmExporter.name, gpu.Collect),
    (NcclRas.name, nccl_ras.collect),
    (FlightRecorder.name, flight_recorder.collect),
    (Xids.name, xid.collect),
    (Kmsg.name, xid.collect_log),
    (PodResources.name, allocation.collect_kubelet),
    (Allocation.name, allocation.collect),
    (NcclInspector.name, nccl_inspector.collect),
    (Procfs.name, host.collect),
    (Diskstats.name, disk.collect),
    (Infiniband.name, infiniband.collect),
    (InfinibandErrors.name, infiniband.collect_errors),
    (Netdev.name, interfaces.collect),
    (Ethtool.name, ethernet.collect),
    (SoftnetStat.name, network_stack.collect_softnet),
    (TcpCounters.name, network_stack.collect_tcp),
    (Vmstat.name, memory_trouble.collect),
    (CgroupTree.name, throttling.collect_node),
    (ThermalZones.name, host_temperature.collect),
    (ThermalThrottles.name, thermal_throttle.collect),
    (KernelClock.name, clock_state.collect),
    (Identity.name, host.collect_identity),
    (OwnProcessStat.name, monitor.collect),
)
"""Which collector reads which source, in the order of the page; a class is made for each feed."""


FALLS: dict[str, Falls] = {
    Procfs.name: Falls.HOLD,
    Netdev.name: Falls.HOLD,
    Infiniband.name: Falls.CARRY,
    InfinibandErrors.name: Falls.CARRY,
    Ethtool.name: Falls.CARRY,
    "nvml": Falls.CARRY,
    "dcgm": Falls.CARRY,
    "dcgm_exporter": Falls.CARRY,
}
"""What a falling counter of a source means, where it is not told as it is."""


SLOW: frozenset[str] = frozenset((
    CgroupTree.name, Ethtool.name, Identity.name, InfinibandErrors.name, KernelClock.name,
    OwnProcessStat.name, ThermalThrottles.name, ThermalZones.name, Vmstat.name,
))  # fmt: skip
"""Sources of what changes slowly or costs much to read."""


IN_TURNS: frozenset[str] = frozenset((
    Cgroups.name, Diskstats.name, Identity.name, KernelClock.name, Netdev.name, OwnProcessStat.name,
    Procfs.name, RankRings.name, Schedstat.name, SimulatedGpus.name, SoftnetStat.name,
    TcpCounters.name, Vmstat.name,
))  # fmt: skip
"""Sources of what the kernel has at hand: to wake a thread for each would cost more than to read
them."""


EVENTS: frozenset[str] = frozenset((Allocation.name, Xids.name))
"""Sources of what has to be seen within a second of its happening: read twice in a fast period."""


LOOKED_FOR_SELDOM: frozenset[str] = frozenset((
    "replay", "nvml", "dcgm", "dcgm_exporter", "infiniband", "ethtool", "kmsg", "nccl_ras",
    "nccl_inspector", "flight_recorder",
))  # fmt: skip
"""Sources that most nodes have at start or never; a look each second would cost as much as others'
readings."""
LOOK_TURNS = 3
"""Periods between two looks for one of them: what comes is on the page within five seconds."""


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
    build = sources(config, clock)
    return tuple(
        Feed(
            build[name](),
            collect() if isinstance(collect, type) else collect,
            _period(name, config),
            falls=FALLS.get(name, Falls.TOLD),
            look=LOOK_TURNS if name in LOOKED_FOR_SELDOM else 1,
            in_turns=name in IN_TURNS,
        )
        for name, collect in COLLECTORS
        if name in wanted
    )


def _period(name: str, config: Config) -> float:
    if name in EVENTS:
        return config.fast_period / 2
    return config.slow_period if name in SLOW else config.fast_period
