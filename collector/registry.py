"""Every source in one row: how it is made, what becomes of its readings, how often it is read."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.config import Config, ConfigError, nearest
from lockstep.collector.readings.gpu import RankDevice
from lockstep.collector.readings.source import RankProcess, Source
from lockstep.collector.samples import (
    gpu,
    host,
    kubelet,
    monitor,
    nccl,
    network,
    ranks,
    simulated_gpu,
    xid,
)
from lockstep.collector.samples.counters import Falls
from lockstep.collector.samples.feed import Collector, Feed
from lockstep.collector.sources.gpu.dcgm import Dcgm
from lockstep.collector.sources.gpu.dcgm_exporter import DcgmExporter
from lockstep.collector.sources.gpu.nvml.source import Nvml
from lockstep.collector.sources.gpu.precedence import GpuInventory, GpuSource, Ranked
from lockstep.collector.sources.gpu.replay import Replay
from lockstep.collector.sources.gpu.simulated import SimulatedGpus
from lockstep.collector.sources.gpu.xid.source import Xids
from lockstep.collector.sources.host.cgroup import Cgroups
from lockstep.collector.sources.host.cgroup_tree import CgroupTree
from lockstep.collector.sources.host.diskstats import Diskstats
from lockstep.collector.sources.host.identity import Identity
from lockstep.collector.sources.host.kernel_clock import KernelClock
from lockstep.collector.sources.host.kmsg import Kmsg
from lockstep.collector.sources.host.own_process import OwnProcessStat
from lockstep.collector.sources.host.procfs import Procfs
from lockstep.collector.sources.host.schedstat import Schedstat
from lockstep.collector.sources.host.thermal import ThermalZones
from lockstep.collector.sources.host.thermal_throttle import ThermalThrottles
from lockstep.collector.sources.host.vmstat import Vmstat
from lockstep.collector.sources.kubelet.allocation.source import Allocation
from lockstep.collector.sources.kubelet.pod_resources import PodResources
from lockstep.collector.sources.nccl.flight_recorder.source import FlightRecorder
from lockstep.collector.sources.nccl.inspector.source import NcclInspector
from lockstep.collector.sources.nccl.ras.guard import Polling
from lockstep.collector.sources.nccl.ras.source import NcclRas
from lockstep.collector.sources.network.ethtool.source import Ethtool
from lockstep.collector.sources.network.infiniband.errors import InfinibandErrors
from lockstep.collector.sources.network.infiniband.source import Infiniband
from lockstep.collector.sources.network.netdev.devices import Devices
from lockstep.collector.sources.network.netdev.source import Netdev
from lockstep.collector.sources.network.softnet import SoftnetStat
from lockstep.collector.sources.network.tcp import TcpCounters
from lockstep.collector.sources.ranks.owners import Rank
from lockstep.collector.sources.ranks.rings import SCAN_SECONDS, LivingRanks, Rings
from lockstep.collector.sources.ranks.source import RankRings

LOOK_TURNS = 3
"""Periods between two looks for a seldom source: what comes is on the page within five seconds."""


class Pace(Enum):
    """How often a source is read."""

    EVENT = "twice in a fast period: what has to be seen within a second of its happening"
    FAST = "every fast period: what changes every step"
    SLOW = "every slow period: what changes slowly or costs much to read"


class Thread(Enum):
    """On which thread a source is read."""

    OWN = "its own: when it stands still, no other source waits"
    SHARED = "the one of all that the kernel has at hand: to wake one for each would cost more"


class Node:
    """The node as the settings describe it, and what one source needs of another.

    What several sources need is made once, for the first of them.
    """

    def __init__(self, config: Config, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.proc = config.proc
        self.sys = config.sys
        self.folder = config.lockstep_dir

    def reads(self, name: str) -> bool:
        """Whether the settings ask for the source of this name."""
        return self.config.sources is None or name in self.config.sources

    @cached_property
    def rings(self) -> Rings:
        """The ring files of this node's ranks."""
        return Rings(self.folder, self.proc, self.clock)

    @cached_property
    def _living(self) -> LivingRanks:
        return LivingRanks(self.rings)

    def living_ranks(self) -> list[RankProcess]:
        """Living ranks, each with the pid that it has in its own container."""
        return [RankProcess(*rank.key, rank.header.identity.pid) for rank in self._living()]

    def rank_owners(self) -> list[RankProcess]:
        """Ranks that have a ring, living or gone, and whose it is."""
        return [
            RankProcess(*rank.key, rank.header.identity.pid, rank.user, rank.path.parent)
            for rank in self.rings.scan(SCAN_SECONDS).ranks
        ]

    def rank_processes(self) -> list[RankProcess]:
        """Living ranks by their pids in our process table, where a container's are others."""
        return [
            RankProcess(*rank.key, rank.pid, rank.user)
            for rank in self._living()
            if rank.pid is not None
        ]

    def stepped_ranks(self) -> frozenset[tuple[str, int]]:
        """(run, rank) of those that have made a step since they started."""
        return frozenset(rank.key for rank in self._living() if _has_stepped(rank))

    def rank_devices(self) -> list[RankDevice]:
        """The GPU of every rank that lives."""
        return [_rank_device(rank) for rank in self._living()]

    def network_devices(self) -> Devices:
        """The network devices of the node that are shown."""
        return Devices(
            self.proc, self.sys, virtual=self.config.virtual_devices,
            nodes_sysfs=self.config.sys != Config().sys,
        )  # fmt: skip

    @cached_property
    def gpus(self) -> GpuInventory:
        """The GPUs of the last reading, whichever source gave it."""
        return GpuInventory()

    @cached_property
    def driver(self) -> Nvml:
        """NVML, which reads GPUs and their XIDs."""
        return Nvml(self.proc, self.sys, self.clock, self.config.slow_period)

    @cached_property
    def ranked(self) -> dict[str, Ranked]:
        """The sources of GPUs that are read, the best first: each keeps those after it silent.

        A capture is played in place of this machine's GPUs.
        """
        best_first: tuple[GpuSource, ...] = (
            Replay(self.config.replay, self.clock),
            self.driver,
            Dcgm(self.clock),
            DcgmExporter(self.config.dcgm_exporter, self.clock),
        )
        ranked: dict[str, Ranked] = {}
        for source in best_first:
            if self.reads(source.name):
                ranked[source.name] = Ranked(self.gpus.watching(source), tuple(ranked.values()))
        return ranked

    @cached_property
    def kubelet(self) -> PodResources:
        """Which pod has which GPU."""
        return PodResources(self.config.pod_resources, self.clock)

    @cached_property
    def kernel_log(self) -> Kmsg:
        """The kernel's log."""
        return Kmsg(self.config.kmsg, self.clock)

    @property
    def gpu_log(self) -> Kmsg | None:
        """The kernel's log where it is about these GPUs (not about a capture) and is read."""
        real = self.config.replay is None
        return self.kernel_log if real and self.reads(Kmsg.name) else None

    @property
    def inspected(self) -> tuple[Any, ...]:
        """Folders of Inspector's files: their own, and that of the rings."""
        own = self.config.inspector_dir
        return (self.folder,) if own is None else (own, self.folder)


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source, whole: nothing else in the collector lists sources.

    Attributes:
        kind: Its class; its `name` is the `source` label and the word in `--sources`.
        make: The source, with what it needs of the node.
        collect: What becomes of its readings; a class is made for each feed.
        thread: On which thread it is read.
        pace: How often.
        falls: What a counter that reads less than before means.
        seldom: Most nodes have it at start or never; to look for it each period would cost as
            much as others' readings.
    """

    kind: type[Source[Any]]
    make: Callable[[Node], Source[Any]]
    collect: Collector[Any] | type[gpu.Collect]
    thread: Thread = Thread.OWN
    pace: Pace = Pace.FAST
    falls: Falls = Falls.TOLD
    seldom: bool = False

    @property
    def name(self) -> str:
        """The `source` label."""
        return self.kind.name  # type: ignore[return-value]  # a constant in every class

    def feed(self, node: Node) -> Feed:
        """The source of a node with its collector, period and thread."""
        config = node.config
        period = {
            Pace.EVENT: config.fast_period / 2,
            Pace.FAST: config.fast_period,
            Pace.SLOW: config.slow_period,
        }
        return Feed(
            self.make(node),
            self.collect() if isinstance(self.collect, type) else self.collect,
            period[self.pace],
            falls=self.falls,
            look=LOOK_TURNS if self.seldom else 1,
            in_turns=self.thread is Thread.SHARED,
        )


def _gpus(kind: type[GpuSource], falls: Falls = Falls.CARRY) -> SourceSpec:
    """A row of a source of GPUs: it serves while no better one does."""
    name = str(kind.name)
    return SourceSpec(kind, lambda node: node.ranked[name], gpu.Collect, falls=falls, seldom=True)


_OWN, _SHARED = Thread.OWN, Thread.SHARED
_EVENT, _SLOW = Pace.EVENT, Pace.SLOW

SOURCES: tuple[SourceSpec, ...] = (
    SourceSpec(
        RankRings, lambda node: RankRings(node.folder, node.proc, node.clock, node.rings),
        ranks.collect_ranks, _SHARED,
    ),
    SourceSpec(
        Cgroups, lambda node: Cgroups(node.proc, node.sys, node.rank_processes),
        ranks.collect_rank_throttling, _SHARED,
    ),
    SourceSpec(
        Schedstat, lambda node: Schedstat(node.proc, node.rank_processes),
        ranks.collect_run_queue, _SHARED,
    ),
    SourceSpec(
        SimulatedGpus, lambda node: SimulatedGpus(node.folder, node.proc, node.clock),
        simulated_gpu.collect, _SHARED,
    ),
    _gpus(Replay, Falls.TOLD),
    _gpus(Nvml),
    _gpus(Dcgm),
    _gpus(DcgmExporter),
    SourceSpec(
        NcclRas,
        lambda node: NcclRas(
            node.config.ras, node.config.node, node.proc, node.clock, node.living_ranks,
            processes=node.rank_processes, stepped=node.stepped_ranks,
            polling=Polling(node.config.ras_polling),
        ),
        nccl.collect_ras, seldom=True,
    ),
    SourceSpec(
        FlightRecorder,
        lambda node: FlightRecorder(
            node.config.flight_recorder, node.folder, node.proc, node.clock, node.living_ranks,
            node.rank_processes, node.rank_owners,
        ),
        nccl.collect_dumps, seldom=True,
    ),
    SourceSpec(
        Xids,
        lambda node: Xids(
            node.clock, node.gpu_log, node.driver.xid_events, node.gpus.gpus, node.gpus.source
        ),
        xid.collect, pace=_EVENT,
    ),
    SourceSpec(Kmsg, lambda node: node.kernel_log, xid.collect_log, seldom=True),
    SourceSpec(PodResources, lambda node: node.kubelet, kubelet.collect_devices),
    SourceSpec(
        Allocation,
        lambda node: Allocation(node.proc, node.kubelet.held, node.rank_devices, node.gpus.gpus),
        kubelet.collect_allocation, pace=_EVENT,
    ),
    SourceSpec(
        NcclInspector,
        lambda node: NcclInspector(node.inspected, node.proc, node.clock, node.living_ranks),
        nccl.collect_inspector, seldom=True,
    ),
    SourceSpec(
        Procfs, lambda node: Procfs(node.proc), host.collect_host, _SHARED, falls=Falls.HOLD
    ),
    SourceSpec(Diskstats, lambda node: Diskstats(node.proc), host.collect_disks, _SHARED),
    SourceSpec(
        Infiniband, lambda node: Infiniband(node.sys, node.clock.monotonic),
        network.collect_infiniband, falls=Falls.CARRY, seldom=True,
    ),
    SourceSpec(
        InfinibandErrors, lambda node: InfinibandErrors(node.sys, node.clock.monotonic),
        network.collect_infiniband_errors, _OWN, _SLOW, Falls.CARRY,
    ),
    SourceSpec(
        Netdev, lambda node: Netdev(node.network_devices(), node.clock, node.config.slow_period),
        network.collect_devices, _SHARED, falls=Falls.HOLD,
    ),
    SourceSpec(
        Ethtool,
        lambda node: Ethtool(node.network_devices().names, monotonic=node.clock.monotonic),
        network.collect_ethernet,
        _OWN, _SLOW, Falls.CARRY, seldom=True,
    ),
    SourceSpec(
        SoftnetStat, lambda node: SoftnetStat(node.proc), network.collect_softnet, _SHARED
    ),
    SourceSpec(
        TcpCounters, lambda node: TcpCounters(node.proc, node.network_devices().elsewhere),
        network.collect_tcp, _SHARED,
    ),
    SourceSpec(Vmstat, lambda node: Vmstat(node.proc), host.collect_memory_trouble, _SHARED, _SLOW),
    SourceSpec(
        CgroupTree, lambda node: CgroupTree(node.sys), ranks.collect_node_throttling, _OWN, _SLOW
    ),
    SourceSpec(
        ThermalZones, lambda node: ThermalZones(node.sys), host.collect_temperatures, _OWN, _SLOW
    ),
    SourceSpec(
        ThermalThrottles, lambda node: ThermalThrottles(node.sys), host.collect_thermal_throttles,
        _OWN, _SLOW,
    ),
    SourceSpec(KernelClock, lambda node: KernelClock(), host.collect_clock, _SHARED, _SLOW),
    SourceSpec(
        Identity, lambda node: Identity(node.proc, node.config.node, node.config.node_name),
        host.collect_identity, _SHARED, _SLOW,
    ),
    SourceSpec(
        OwnProcessStat, lambda node: OwnProcessStat(node.proc), monitor.collect, _SHARED, _SLOW
    ),
)  # fmt: skip
"""Every source, in the order of the page."""
NAMES: tuple[str, ...] = tuple(spec.name for spec in SOURCES)


def feeds(config: Config, clock: Clock) -> tuple[Feed, ...]:
    """The feeds that the settings ask for, in the order of the page.

    Raises:
        ConfigError: The settings name a source that does not exist.
    """
    for name in config.sources or ():
        if name not in NAMES:
            raise ConfigError(f"collector.sources: unknown source {name}; {nearest(name, NAMES)}")
    node = Node(config, clock)
    return tuple(spec.feed(node) for spec in SOURCES if node.reads(spec.name))


def _has_stepped(rank: Rank) -> bool:
    """By its own records: the count of a run that was resumed begins where the run before ended."""
    live = rank.header.live
    return live is not None and live.step_cursor > 0


def _rank_device(rank: Rank) -> RankDevice:
    who = rank.header.identity
    return RankDevice(
        who.run, who.rank, who.local_rank, who.world, rank.pid, who.gpu, who.uuid or ""
    )
