"""Reading to samples, one file a subject; and which source feeds which collector, how often."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from collector.clock import Clock
from collector.collectors import gpu, host, monitor, run_queue, throttling, training
from collector.config import Config, ConfigError, nearest
from collector.contract.metrics import Sample
from collector.reading import RankProcess
from collector.sources import Source
from collector.sources.cgroup import Cgroups
from collector.sources.identity import Identity
from collector.sources.own_process import OwnProcessStat
from collector.sources.procfs import Procfs
from collector.sources.rank_ring import RankRings, scan
from collector.sources.schedstat import Schedstat
from collector.sources.simulated import SimulatedGpus

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
    """A source, what becomes of its readings, its period and deadline in seconds."""

    source: Source[Any]
    collect: Collector[Any]
    period: float
    deadline: float = DEADLINE_SECONDS


COLLECTORS: tuple[tuple[str, Collector[Any]], ...] = (
    (RankRings.name, training.collect),
    (Cgroups.name, throttling.collect),
    (Schedstat.name, run_queue.collect),
    (SimulatedGpus.name, gpu.collect),
    (Procfs.name, host.collect),
    (Identity.name, host.collect_identity),
    (OwnProcessStat.name, monitor.collect),
)
"""Which collector reads which source, in the order of the page."""


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
    slow = {Identity.name}
    return tuple(
        Feed(build[name](), collect, config.slow_period if name in slow else config.fast_period)
        for name, collect in COLLECTORS
        if name in wanted
    )


def _sources(config: Config, clock: Clock) -> dict[str, Callable[[], Source[Any]]]:
    proc, folder = config.proc, config.lockstep_dir

    def living_ranks() -> list[RankProcess]:
        ranks, _ = scan(folder, proc, clock)
        return [RankProcess(*rank.key, rank.header.identity.pid) for rank in ranks if rank.up]

    return {
        RankRings.name: lambda: RankRings(folder, proc, clock),
        Cgroups.name: lambda: Cgroups(proc, config.sys, living_ranks),
        Schedstat.name: lambda: Schedstat(proc, living_ranks),
        SimulatedGpus.name: lambda: SimulatedGpus(folder, proc, clock),
        Procfs.name: lambda: Procfs(proc),
        Identity.name: lambda: Identity(proc, config.node),
        OwnProcessStat.name: lambda: OwnProcessStat(proc),
    }
