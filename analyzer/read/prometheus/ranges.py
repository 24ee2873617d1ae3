"""Raw samples of many series, in requests that Prometheus and our memory can bear.

A range selector in an instant query gives the samples as they were scraped, with their times;
`query_range` would give them on a grid, repeated over gaps for as long as the lookback.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lockstep.analyzer.read.prometheus.access import TooMuchError
from lockstep.analyzer.read.prometheus.answers import Series
from lockstep.analyzer.read.prometheus.promql import one_of, quoted
from lockstep.analyzer.read.prometheus.replicas import merged
from lockstep.collector.contract.metrics import BUILD_INFO

if TYPE_CHECKING:
    from lockstep.analyzer.read.prometheus.connection import Connection

MOST_POINTS = 11_000
"""Of a series in one answer: Prometheus' limit (web/api/v1/api.go) for ranges with a step, which
others that speak its API apply to these too."""
MOST_IN_ANSWER = 1_000_000
"""Samples in one answer, about 25 MB; Prometheus bears 50 million (`--query.max-samples`)."""
MOST_SAMPLES = 10_000_000
"""Samples in all, half a minute and 3 GB to analyze; of a longer run its end is read."""
MOST_INSTANCES = 100
"""Targets in one selector: a body of some kilobytes."""
LEAST_MS = 1000
"""A request for less time than this is not divided any more."""

Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was read, `start` to `end` in unix seconds."""

    series: tuple[Series, ...]
    start: float
    end: float


def fetch(
    connection: "Connection",
    run: str,
    targets: Mapping[str, Sequence[str]],
    start: float,
    end: float,
    most: int = MOST_SAMPLES,
) -> Fetched:
    """All samples of the targets in (start, end], those of other runs left out.

    What several replicas of the server report is there once (replicas.merged).

    Args:
        connection: To the Prometheus.
        run: The run's id.
        targets: job -> instances.
        start: Unix seconds.
        end: Unix seconds.
        most: Samples to read at most: of more, the last.

    Raises:
        SourceError: Prometheus does not answer.
    """
    batches = [
        (_where(job, batch), _where(job, batch) + f",run=~{one_of(['', run])}")
        for job, instances in targets.items()
        for batch in _parts(instances)
    ]
    low, high = math.floor(start * 1000), math.ceil(end * 1000)
    sizes = [_size(connection, target, every, low, high) for target, every in batches]
    total = sum(series * points for series, points in sizes)
    if total > most:
        low = high - int((high - low) * most / total)
    parts: dict[Key, list[Series]] = {}
    for (_, every), (series, points) in zip(batches, sizes, strict=True):
        each = max(1, min(MOST_POINTS, MOST_IN_ANSWER // max(1, series)))
        pieces = math.ceil(points / each)
        edges = np.linspace(low, high, max(1, pieces) + 1).astype(np.int64)
        for first, last in pairwise(edges.tolist()):
            for one in _samples(connection, every, first, last):
                parts.setdefault(tuple(sorted(one.labels.items())), []).append(one)
    joined = merged([_joined(each) for each in parts.values()], connection.replica_labels)
    return Fetched(tuple(joined), low / 1000, high / 1000)


def _parts(instances: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(instances), MOST_INSTANCES):
        yield instances[first : first + MOST_INSTANCES]


def _where(job: str, instances: Sequence[str]) -> str:
    return f"job={quoted(job)},instance=~{one_of(instances)}"


def _size(
    connection: "Connection", target: str, every: str, low: int, high: int
) -> tuple[int, int]:
    """(series, scrapes) of some targets in a span."""
    span = f"[{high - low}ms]"
    query = f"count(last_over_time({_selector(every)}{span}))"
    number = connection.instant(query, high / 1000, every=True)
    query = f"max(count_over_time({BUILD_INFO.name}{{{target}}}{span}))"
    scrapes = connection.instant(query, high / 1000, every=True)
    return _first(number, 1), _first(scrapes, (high - low) // 1000)


def _first(answer: Sequence[tuple[Mapping[str, str], float]], otherwise: int) -> int:
    return int(answer[0][1]) if answer and math.isfinite(answer[0][1]) else otherwise


def _selector(where: str) -> str:
    return f'{{__name__=~"lockstep_.+|up",{where}}}'


def _samples(connection: "Connection", where: str, low: int, high: int) -> Iterator[Series]:
    """Series with samples in (low, high], unix milliseconds; an answer too large is halved."""
    try:
        found = connection.samples(f"{_selector(where)}[{high - low}ms]", high / 1000)
    except TooMuchError:
        if high - low < 2 * LEAST_MS:
            raise
        middle = (low + high) // 2
        yield from _samples(connection, where, low, middle)
        yield from _samples(connection, where, middle, high)
        return
    for series in found:
        # Prometheus 2 includes the left end of a range, and 3 does not.
        inside = series.times > low
        if inside.any():
            yield Series(series.labels, series.times[inside], series.values[inside])


def _joined(parts: Sequence[Series]) -> Series:
    if len(parts) == 1:
        return parts[0]
    times = np.concatenate([part.times for part in parts])
    values = np.concatenate([part.values for part in parts])
    return Series(parts[0].labels, times, values)
