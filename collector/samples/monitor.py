"""How the collector itself is: its build, its cost, and the health of each source."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.sources.host.own_process import OwnProcess


@dataclass(frozen=True, slots=True)
class SourceHealth:
    """How a source is now.

    Attributes:
        up: The last reading succeeded.
        stalled: A reading is under way and has overrun its deadline.
        last_success: Unix time, or None before the first one.
        duration: Seconds of the last finished reading, or None before the first one.
        errors: Failed and rejected readings by reason.
        unknown_names: In its last reading, or None for a source that reads none.
        restarts: Times that its process ended unasked, or None for a source without a process.
    """

    name: str
    available: bool
    up: bool
    stalled: bool
    last_success: float | None
    duration: float | None
    errors: Mapping[str, int]
    restarts: int | None = None
    unknown_names: int | None = None


def collect(process: OwnProcess) -> Iterator[Sample]:
    """What this process uses."""
    yield m.PROCESS_CPU(process.cpu_seconds)
    yield m.PROCESS_RSS(process.resident_bytes)


def collect_build(version: str, python: str) -> Iterator[Sample]:
    """What this process is."""
    yield m.BUILD_INFO(1, version, python)


def collect_health(sources: Iterable[SourceHealth]) -> Iterator[Sample]:
    """The health of each source."""
    for source in sources:
        yield m.SOURCE_UP(int(source.up), source.name)
        yield m.SOURCE_AVAILABLE(int(source.available), source.name)
        yield m.SOURCE_STALLED(int(source.stalled), source.name)
        if source.last_success is not None:
            yield m.SOURCE_LAST_SUCCESS(source.last_success, source.name)
        if source.duration is not None:
            yield m.SOURCE_DURATION(source.duration, source.name)
        if source.unknown_names is not None and source.available:
            yield m.SOURCE_NAMES_UNREAD(source.unknown_names, source.name)
        if source.restarts is not None:
            yield m.SOURCE_RESTARTS(source.restarts, source.name)
        for reason, count in sorted(source.errors.items()):
            yield m.SOURCE_ERRORS(count, source.name, reason)
