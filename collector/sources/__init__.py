"""The only code that touches the world: each source reads one thing into a frozen reading."""

from typing import Any, Protocol, TypeVar, runtime_checkable

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

R_co = TypeVar("R_co", covariant=True)


class Source(Protocol[R_co]):
    """Reads one thing. `name` is its file and its `source` label.

    A source may have a method `why_not() -> str`: what is missing when it is not available; and
    `close()`: ends what it started.
    """

    @property
    def name(self) -> str:
        """The `source` label."""
        ...

    def available(self) -> bool:
        """Whether this node has what the source reads."""
        ...

    def read(self) -> R_co:
        """A fresh reading; raises collector.reading.SourceError when there is none.

        A reading that stands in part lists what it left out in an attribute `rejected`; one whose
        attribute `stalled` is true says that its source stands still.
        """
        ...


@runtime_checkable
class Remembering(Protocol):
    """A source that has to know more after a restart of the collector than its counters."""

    @property
    def name(self) -> str:
        """The `source` label."""
        ...

    def memory(self) -> Any:
        """JSON values; asked for while the source may be read by its thread."""
        ...

    def recall(self, tree: Any) -> None:
        """Take over the memory of an earlier process of this boot, before the first reading.

        Raises:
            ValueError: It is not a memory of this source.
        """
        ...


SOURCES: tuple[type[Source[Any]], ...] = (
    RankRings,
    Cgroups,
    Schedstat,
    SimulatedGpus,
    Nvml,
    Dcgm,
    DcgmExporter,
    Replay,
    NcclRas,
    FlightRecorder,
    Xids,
    Kmsg,
    PodResources,
    Allocation,
    NcclInspector,
    Procfs,
    Diskstats,
    Infiniband,
    InfinibandErrors,
    Netdev,
    Ethtool,
    SoftnetStat,
    TcpCounters,
    Vmstat,
    CgroupTree,
    ThermalZones,
    ThermalThrottles,
    KernelClock,
    Identity,
    OwnProcessStat,
)
"""Every source."""
