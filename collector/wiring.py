"""Every source with what the settings say, and with what one needs of another."""

from collections.abc import Callable
from typing import Any

from collector.clock import Clock
from collector.config import Config
from collector.gpu_holding import RankDevice
from collector.gpu_inventory import GpuInventory
from collector.precedence import Ranked
from collector.reading import RankProcess
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
from collector.sources.netdev.devices import Devices
from collector.sources.nvml import Nvml
from collector.sources.own_process import OwnProcessStat
from collector.sources.pod_resources import PodResources
from collector.sources.procfs import Procfs
from collector.sources.rank_ring import Rank, RankRings, Rings
from collector.sources.rank_ring.living import LivingRanks
from collector.sources.replay import Replay
from collector.sources.schedstat import Schedstat
from collector.sources.simulated import SimulatedGpus
from collector.sources.softnet import SoftnetStat
from collector.sources.tcp import TcpCounters
from collector.sources.thermal import ThermalZones
from collector.sources.thermal_throttle import ThermalThrottles
from collector.sources.vmstat import Vmstat
from collector.sources.xid import Xids


def _gpu_sources(config: Config, clock: Clock, known: GpuInventory, driver: Nvml) -> list[Ranked]:
    """The best first: a capture is played in place of this machine's GPUs."""
    ranked: list[Ranked] = []
    for source in (
        Replay(config.replay, clock),
        driver,
        Dcgm(clock),
        DcgmExporter(config.dcgm_exporter, clock),
    ):
        if config.sources is None or source.name in config.sources:  # who is not read, never ends
            ranked.append(Ranked(known.watching(source), ranked))
    return ranked


def _built(source: Ranked) -> Callable[[], Source[Any]]:
    return lambda: source


def sources(config: Config, clock: Clock) -> dict[str, Callable[[], Source[Any]]]:
    """How each source is made, by its name; those that need one another share it."""
    proc, folder = config.proc, config.lockstep_dir

    def network_devices() -> Devices:
        return Devices(proc, config.sys, virtual=config.virtual_devices)

    rings = Rings(folder, proc, clock)
    living = LivingRanks(rings)

    def living_ranks() -> list[RankProcess]:
        return [RankProcess(*rank.key, rank.header.identity.pid) for rank in living()]

    def rank_processes() -> list[RankProcess]:
        """As our process table has them: a pid of a container's is another process here."""
        return [RankProcess(*rank.key, rank.pid) for rank in living() if rank.pid is not None]

    def rank_devices() -> list[RankDevice]:
        return [_rank_device(rank) for rank in living()]

    known, kubelet = GpuInventory(), PodResources(config.pod_resources, clock)
    driver = Nvml(proc, config.sys, clock, config.slow_period)
    kmsg = Kmsg(config.kmsg, clock)
    # Errors of this machine have nothing to do with the GPUs of a capture, nor is a log read that
    # was not asked for.
    real, asked = config.replay is None, config.sources is None or Kmsg.name in config.sources
    log = kmsg if real and asked else None
    # Inspector files lie where their folder says, or beside the rings.
    inspected = (folder,) if config.inspector_dir is None else (config.inspector_dir, folder)
    return {
        **{one.name: _built(one) for one in _gpu_sources(config, clock, known, driver)},
        RankRings.name: lambda: RankRings(folder, proc, clock, rings),
        Cgroups.name: lambda: Cgroups(proc, config.sys, rank_processes),
        Schedstat.name: lambda: Schedstat(proc, rank_processes),
        SimulatedGpus.name: lambda: SimulatedGpus(folder, proc, clock),
        NcclInspector.name: lambda: NcclInspector(inspected, proc, clock, living_ranks),
        PodResources.name: lambda: kubelet,
        Allocation.name: lambda: Allocation(proc, kubelet.held, rank_devices, known.gpus),
        Xids.name: lambda: Xids(clock, log, driver.xid_events, known.gpus),
        Kmsg.name: lambda: kmsg,
        NcclRas.name: lambda: NcclRas(
            config.ras, config.node, proc, clock, living_ranks, processes=rank_processes
        ),
        FlightRecorder.name: lambda: FlightRecorder(
            config.flight_recorder, folder, proc, clock, living_ranks, rank_processes
        ),
        Procfs.name: lambda: Procfs(proc),
        Diskstats.name: lambda: Diskstats(proc),
        Infiniband.name: lambda: Infiniband(config.sys),
        InfinibandErrors.name: lambda: InfinibandErrors(config.sys),
        Netdev.name: lambda: Netdev(network_devices(), clock, config.slow_period),
        Ethtool.name: lambda: Ethtool(network_devices().names),
        SoftnetStat.name: lambda: SoftnetStat(proc),
        TcpCounters.name: lambda: TcpCounters(proc),
        Vmstat.name: lambda: Vmstat(proc),
        CgroupTree.name: lambda: CgroupTree(config.sys),
        ThermalZones.name: lambda: ThermalZones(config.sys),
        ThermalThrottles.name: lambda: ThermalThrottles(config.sys),
        KernelClock.name: KernelClock,
        Identity.name: lambda: Identity(proc, config.node),
        OwnProcessStat.name: lambda: OwnProcessStat(proc),
    }


def _rank_device(rank: Rank) -> RankDevice:
    who = rank.header.identity
    return RankDevice(
        who.run, who.rank, who.local_rank, who.world, rank.pid, who.gpu, who.uuid or ""
    )
