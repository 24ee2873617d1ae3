"""The time and the targets of a run in a Prometheus; moments as people write them."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lockstep.analyzer.read.prometheus.access import RequestError
from lockstep.analyzer.read.prometheus.promql import series
from lockstep.analyzer.read.prometheus.questions import samples_present, targets_with
from lockstep.collector.contract.metrics import RANK_UP

if TYPE_CHECKING:
    from lockstep.analyzer.read.prometheus.connection import Connection


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
AGO = re.compile(r"(?:\d{1,9}[smhdw])+", re.ASCII)
PART = re.compile(r"(\d+)([smhdw])", re.ASCII)
UNIX = re.compile(r"\d{9,11}(?:\.\d+)?", re.ASCII)
LAST = 32503680000.0
"""Unix seconds of the year 3000."""


def moment(text: str, now: float, option: str) -> float:
    """Unix seconds.

    Args:
        text: `2026-11-20T10:15:00Z` (UTC where no offset is given), `1795169700`, or as long ago
            as `90m` or `1d12h`.
        now: Unix seconds.
        option: For the message, as `--since`.

    Raises:
        RequestError: It is none of these, or not a moment up to now.
    """
    found = _moment(text.strip(), now)
    if found is None or not 0 <= found <= LAST:
        raise RequestError(
            f"{option} {text!r} is no moment; it must be a date as 2026-11-20T10:15:00Z,"
            " unix seconds, or how long ago, as 90m"
        )
    if found > now:
        raise RequestError(
            f"{option} {text!r} lies in the future; Prometheus' clock says {utc(now)}"
        )
    return found


def utc(seconds: float) -> str:
    """As `2026-11-20T10:15:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(text: str, now: float) -> float | None:
    if AGO.fullmatch(text):
        return now - sum(int(count) * UNITS[unit] for count, unit in PART.findall(text))
    if UNIX.fullmatch(text):
        return float(text)
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


LOOK_BACK = 15 * 86400.0
"""Seconds before `until` that are searched without `since`: what Prometheus keeps by default."""
BUCKETS = 10_000
"""Parts of the time that is searched; Prometheus answers with 11,000 points at most."""
SHORTEST = 1.0
"""Seconds of a part."""
SHOWN_RUNS = 8


@dataclass(frozen=True, slots=True)
class RunExtent:
    """A run in a Prometheus.

    Attributes:
        start, end: Unix seconds around all its samples.
        targets: job -> instances that showed ranks of it.
        until: Unix seconds up to which it was looked for.
    """

    start: float
    end: float
    targets: Mapping[str, tuple[str, ...]]
    until: float


def find(
    connection: "Connection",
    run: str,
    since: str | None,
    until: str | None,
    name: str = RANK_UP.name,
) -> RunExtent:
    """The run, between two moments (as `moment` reads them) or wherever it is.

    Args:
        connection: To the Prometheus.
        run: The run's id.
        since: None = where it begins.
        until: None = where it ends.
        name: Of the series that show it; of a recorded one the targets say nothing.

    Raises:
        RequestError: There is no such run, or not then; the message says which runs there are.
        SourceError: Prometheus does not answer.
    """
    now = connection.now()
    end = now if until is None else moment(until, now, "--until")
    start = end - LOOK_BACK if since is None else moment(since, now, "--since")
    if start >= end:
        raise RequestError(
            f"--since {utc(start)} is not before --until {utc(end)}; nothing lies between"
        )
    targets = _targets(connection, name, run, start, end)
    if not targets:
        raise RequestError(_absent(connection, name, run, start, end, now))
    first, last = _extent(connection, name, run, start, end)
    return RunExtent(first, last, targets, min(end, now))


def _targets(
    connection: "Connection", name: str, run: str, start: float, end: float
) -> dict[str, tuple[str, ...]]:
    query = targets_with(series(name, run=run), end - start)
    found: dict[str, list[str]] = {}
    for labels, _ in connection.instant(query, end, every=True):
        found.setdefault(labels.get("job", ""), []).append(labels.get("instance", ""))
    return {job: tuple(sorted(instances)) for job, instances in sorted(found.items())}


def _extent(
    connection: "Connection", name: str, run: str, start: float, end: float
) -> tuple[float, float]:
    """The time that has samples: first coarsely, then as finely as its length allows."""
    return _parts(connection, name, run, *_parts(connection, name, run, start, end))


def _parts(
    connection: "Connection", name: str, run: str, start: float, end: float
) -> tuple[float, float]:
    """From the first part of the time that has samples to the last."""
    part = max(SHORTEST, math.ceil((end - start) / BUCKETS))
    query = samples_present(series(name, run=run), part)
    # Each point covers the part before it: the last one has to reach the end.
    times = [
        time / 1000
        for one in connection.over(query, start, end + part, part, every=True)
        for time in (one.times[0], one.times[-1])
    ]
    if not times:
        return start, end
    return max(start, min(times) - part), min(end, max(times))


def _absent(
    connection: "Connection", name: str, run: str, start: float, end: float, now: float
) -> str:
    runs = connection.labels("run", name, min(start, now - LOOK_BACK), now)
    if run in runs and _targets(connection, name, run, now - LOOK_BACK, now):
        return _not_then(connection, name, run, start, end, now)
    others = [other for other in runs if other != run]
    if not others:
        return f"{connection.url} has no training run; it must scrape Lockstep's collectors"
    shown = ", ".join(others[:SHOWN_RUNS])
    more = f" and {len(others) - SHOWN_RUNS} more" if len(others) > SHOWN_RUNS else ""
    return f"{connection.url} has no run {run!r}; it has {shown}{more}"


def _not_then(
    connection: "Connection", name: str, run: str, start: float, end: float, now: float
) -> str:
    first, last = _extent(connection, name, run, now - LOOK_BACK, now)
    return (
        f"{connection.url} has nothing of run {run!r} between {utc(start)} and {utc(end)};"
        f" it has it from {utc(first)} to {utc(last)}"
    )
