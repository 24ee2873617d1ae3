"""The only code that touches the world: each source reads one thing into a frozen reading."""

from typing import Any, Protocol, TypeVar

from collector.sources.cgroup import Cgroups
from collector.sources.identity import Identity
from collector.sources.own_process import OwnProcessStat
from collector.sources.procfs import Procfs
from collector.sources.rank_ring import RankRings
from collector.sources.schedstat import Schedstat
from collector.sources.simulated import SimulatedGpus

R_co = TypeVar("R_co", covariant=True)


class Source(Protocol[R_co]):
    """Reads one thing. `name` is its file and its `source` label."""

    @property
    def name(self) -> str:
        """The `source` label."""
        ...

    def available(self) -> bool:
        """Whether this node has what the source reads."""
        ...

    def read(self) -> R_co:
        """A fresh reading; raises collector.reading.SourceError when there is none.

        A reading that stands in part lists what it left out in an attribute `rejected`.
        """
        ...


SOURCES: tuple[type[Source[Any]], ...] = (
    RankRings,
    Cgroups,
    Schedstat,
    SimulatedGpus,
    Procfs,
    Identity,
    OwnProcessStat,
)
"""Every source."""
