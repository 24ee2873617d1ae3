"""The only code that touches the world: each source reads one thing into a frozen reading."""

from typing import Any, Protocol, TypeVar

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
from collector.sources.rank_ring import RankRings
from collector.sources.replay import Replay
from collector.sources.schedstat import Schedstat
from collector.sources.simulated import SimulatedGpus
from collector.sources.softnet import SoftnetStat
from collector.sources.tcp import TcpCounters
from collector.sources.thermal import ThermalZones
from collector.sources.vmstat import Vmstat

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


SOURCES: tuple[type[Source[Any]], ...] = (
    RankRings,
    Cgroups,
    Schedstat,
    SimulatedGpus,
    Nvml,
    Dcgm,
    DcgmExporter,
    Replay,
    Procfs,
    Diskstats,
    SoftnetStat,
    TcpCounters,
    Vmstat,
    CgroupTree,
    ThermalZones,
    KernelClock,
    Identity,
    OwnProcessStat,
)
"""Every source."""
