"""Who uses each GPU: the kubelet's pods, the ranks' rings and the driver's processes, together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.collector.readings.gpu import Gpu, Holder, PodDevices, RankDevice
from lockstep.collector.readings.source import Rejected, SourceError
from lockstep.collector.sources.kubelet.allocation.join import (
    ProcessWords,
    joined,
    listed,
    process_words,
    started,
)

MAX_PROCESSES = 1024
"""Processes looked at; a GPU shared by many has some hundred at most."""


@dataclass(frozen=True, slots=True)
class AllocationReading:
    """Who holds which GPU.

    Attributes:
        kubelet_age: Seconds since the kubelet's answer that it rests on; None = no kubelet.
    """

    holders: tuple[Holder, ...]
    kubelet_age: float | None
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """What a process said when it was first seen; its environment does not change any more."""

    started: float
    words: ProcessWords


class Allocation:
    """Source of AllocationReading.

    Args:
        proc: Where processes are found.
        pods: What the kubelet last answered.
        ranks: Ranks with a ring whose process lives.
        gpus: GPUs and MIG devices, as the source that feeds the page last told.
    """

    name = "allocation"

    def __init__(
        self,
        proc: Path,
        pods: Callable[[], PodDevices],
        ranks: Callable[[], Sequence[RankDevice]],
        gpus: Callable[[], Sequence[Gpu]],
    ) -> None:
        self._proc = proc
        self._pods = pods
        self._ranks = ranks
        self._gpus = gpus
        self._known: dict[int, _Known] = {}

    def available(self) -> bool:
        """Whether anything here could hold a GPU, or tell who does."""
        return bool(self._gpus()) or self._pods().age is not None or bool(self._devices())

    def why_not(self) -> str:
        """What is missing."""
        return "no GPU, no kubelet and no rank with a device"

    def read(self) -> AllocationReading:
        """Put together what is known now."""
        gpus, pods, ranks = self._gpus(), self._pods(), self._devices()
        processes = listed(gpus)
        rejected: list[Rejected] = []
        if len(processes) > MAX_PROCESSES:
            rejected.append(
                Rejected("too_many", f"{len(processes)} processes; {MAX_PROCESSES} are looked at")
            )
        processes = processes[:MAX_PROCESSES]
        visible = {rank.pid for rank in ranks if rank.pid is not None}
        refused = self._look_at(visible | {process.pid for process in processes})
        words = {pid: one.words for pid, one in self._known.items()}
        holders, unknown = joined(pods.devices, ranks, processes, words, gpus)
        return AllocationReading(tuple(holders), pods.age, (*rejected, *refused, *unknown))

    def _devices(self) -> list[RankDevice]:
        return [rank for rank in self._ranks() if rank.uuid or rank.gpu is not None]

    def _look_at(self, pids: set[int]) -> list[Rejected]:
        """Know what each living process says; what is not for us to read is counted once."""
        rejected: list[Rejected] = []
        known: dict[int, _Known] = {}
        for pid in sorted(pids):
            try:
                since = started(self._proc, pid)
                if since is None:
                    continue
                before = self._known.get(pid)
                if before is None or before.started != since:
                    words, refused = process_words(self._proc, pid)
                    before = _Known(since, words)
                    rejected += refused
                known[pid] = before
            except SourceError as error:
                rejected.append(Rejected.of(error))
        self._known = known
        return rejected
