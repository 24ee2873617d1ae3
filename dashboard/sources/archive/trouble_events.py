"""What happened to the hardware, out of samples: XIDs, memory errors, links, throttling, silence.

Nearly all samples of these metrics say that all is well; only the others are read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lockstep.analyzer.read.archive.series import NOBODY, UP, Series, codes
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import Metric
from lockstep.dashboard.shapes import Event, Floats, Severity, Span
from lockstep.dashboard.sources.check_table import severity_of, words_of

RISE: tuple[Metric, ...] = (
    metrics.GPU_XID_ERRORS, metrics.GPU_XID_LAST, metrics.GPU_ECC_ERRORS, metrics.GPU_FALLEN,
    metrics.GPU_CLOCK_EVENT_SECONDS, metrics.NET_CARRIER_CHANGES,
)  # fmt: skip
"""Counters from 0, and the times of XIDs: what is 0 is well."""
FALL: tuple[Metric | str, ...] = (
    metrics.NET_UP, metrics.GPU_NVLINK_UP, metrics.GPU_UP, metrics.RANK_UP, UP,
)  # fmt: skip
"""States: what is 1 is well."""
THROTTLED_SHARE = 0.1
"""Of the time between two scrapes. SOURCE: analyzer.report.sections.checks.THROTTLED_SHARE."""
FORGIVEN = 2.5
"""Scrape intervals between two signs of the same thing that are one event."""
HEAT, POWER = "heat", "power"


NAMES = tuple(each if isinstance(each, str) else each.name for each in (*RISE, *FALL))
_FALLING = frozenset(each if isinstance(each, str) else each.name for each in FALL)


def rows_to_read(batch: pa.RecordBatch, plain: frozenset[str]) -> NDArray[np.bool_]:
    """Rows of some metrics, and those of NAMES that say that something is not well.

    Args:
        batch: With metric and value.
        plain: Metrics of which all rows are wanted.
    """
    words = [str(each) for each in batch.column("metric").dictionary.to_pylist()]
    kinds = [
        _ALL if word in plain else _BELOW if word in _FALLING else _ABOVE if word in NAMES else 0
        for word in words
    ]
    kind = np.array([*kinds, 0], dtype=np.int8)[codes(batch.column("metric"))]
    value = batch.column("value").fill_null(np.nan).to_numpy()
    rows: NDArray[np.bool_] = kind == _ALL
    rows |= (kind == _ABOVE) & (value > 0)
    rows |= (kind == _BELOW) & (value < 1)
    return rows


_ALL, _ABOVE, _BELOW = 1, 2, 3


def events(
    rows: Sequence[Series], interval: float, span: Span, run: str, node: str, ended: float | None
) -> list[Event]:
    """Events of the hardware in a span.

    Args:
        rows: NAMES, of which only `odd` rows are needed.
        interval: Seconds between two scrapes.
        span: When; it begins with the first scrape, or later.
        run: Id of the run, for the events.
        node: Whom they are about; empty = all.
        ended: Unix seconds at which the run ended well; a rank that is gone after it is no event.
    """
    events: list[Event] = []
    for series in rows:
        if series.metric in NAMES and (not node or series.node == node):
            events += _of(series, interval, run, span, ended)
    return merged(events, FORGIVEN * interval)


def _of(
    series: Series, interval: float, run: str, span: Span, ended: float | None
) -> Iterator[Event]:
    gpu = None if series.gpu == NOBODY else series.gpu
    rank = None if series.rank == NOBODY else series.rank
    where = series.node if gpu is None else f"{series.node} GPU {gpu}"

    def event(at: float, until: float | None, kind: str, severity: Severity, text: str) -> Event:
        return Event(at, until, kind, severity, text, run, series.node, gpu, rank)

    if series.metric == metrics.GPU_XID_LAST.name:
        for at in np.unique(series.values):
            if span.start <= at <= span.end:
                yield event(float(at), None, "xid", *_xid(series, where))
    elif series.metric == metrics.GPU_XID_ERRORS.name:
        for at in _rises(series, interval, span):
            yield event(at, None, "xid", *_xid(series, where))
    elif series.metric == metrics.GPU_FALLEN.name:
        for at in _rises(series, interval, span):
            yield event(at, None, "gone", Severity.CRITICAL, f"{where} fell off the bus")
    elif series.metric == metrics.GPU_ECC_ERRORS.name:
        if series.label.get("counter") == "volatile":
            bad = series.label.get("type") == "uncorrected"
            severity = Severity.CRITICAL if bad else Severity.NOTE
            words = f"{series.label.get('type', '')} memory errors on {where}"
            for at in _rises(series, interval, span):
                yield event(at, None, "ecc", severity, words)
    elif series.metric == metrics.NET_CARRIER_CHANGES.name:
        words = f"link {series.label.get('device', '')} of {series.node} came or went"
        for at in _rises(series, interval, span):
            yield event(at, None, "link", Severity.WARNING, words)
    elif series.metric == metrics.GPU_CLOCK_EVENT_SECONDS.name:
        kind = HEAT if "thermal" in series.label.get("reason", "") else POWER
        if series.label.get("reason") == "hw_slowdown":
            return  # it stands beside the reason, and says none
        for begin, end in _throttled(series, interval):
            yield event(begin, end, "throttle", Severity.WARNING, f"{where} throttled by {kind}")
    else:
        yield from (event(*down) for down in _down(series, where, interval, ended))


def _down(
    series: Series, where: str, interval: float, ended: float | None
) -> Iterator[tuple[float, float | None, str, Severity, str]]:
    kind, severity = "gone", Severity.CRITICAL
    if series.metric == UP:
        words, severity = f"{series.node} did not answer scrapes", Severity.WARNING
    elif series.metric == metrics.RANK_UP.name:
        words = f"the process of rank {series.rank} is gone"
    elif series.metric == metrics.GPU_UP.name:
        words = f"{where} does not answer"
    elif series.metric == metrics.NET_UP.name:
        kind, words = "link", f"link {series.label.get('device', '')} of {series.node} is down"
    else:
        kind, words = "link", f"NVLink {series.label.get('link', '')} of {where} is down"
    for begin, end in stretches(series.times, interval):
        if ended is None or begin < ended - interval:
            yield begin, end, kind, severity, words


def stretches(times: Floats, interval: float) -> list[tuple[float, float]]:
    """Begin and end of each run of moments that follow each other closely."""
    if not len(times):
        return []
    edges = np.flatnonzero(np.diff(times) > FORGIVEN * interval) + 1
    return [(float(each[0]), float(each[-1]) + interval) for each in np.split(times, edges)]


def _rises(series: Series, interval: float, span: Span) -> list[float]:
    """When a counter rose; values of 0 were not read, so the first one counts as a rise."""
    before = np.concatenate([[0.0], series.values[:-1]])
    at = series.times[series.values > before]
    known = at > span.start + FORGIVEN * interval
    return [float(each) for each in at[known]]


def _throttled(series: Series, interval: float) -> list[tuple[float, float]]:
    grown = np.diff(series.values, prepend=0.0)
    passed = np.diff(series.times, prepend=series.times[0] - interval)
    first = grown[0] <= passed[0] * 1.5  # else it was throttled before anybody looked
    share = grown / np.maximum(passed, 1e-9)
    share[0] = share[0] if first else 0.0
    return [
        (begin - interval, end - interval)
        for begin, end in stretches(series.times[share > THROTTLED_SHARE], interval)
    ]


def _xid(series: Series, where: str) -> tuple[Severity, str]:
    text = f"XID {series.label.get('xid', '')} on {where}: {words_of(series.label)}"
    return severity_of(series.label), text


def merged(events: Sequence[Event], forgiven: float) -> list[Event]:
    """Events of the same words that follow each other closely as one, in the order of time.

    Two series may tell of one thing: an XID is counted and dated, heat has two reasons.
    """
    found: list[Event] = []

    def key(event: Event) -> tuple[str, str, str]:
        return event.kind, event.node, event.text

    for _, same in groupby(sorted(events, key=lambda each: (*key(each), each.at)), key):
        last: Event | None = None
        for each in same:
            end = None if last is None else last.until or last.at
            if last is not None and end is not None and each.at <= end + forgiven:
                until = max(end, each.until or each.at)
                # The time that the driver noted is the better one, and an XID twice told is one.
                last = replace(last, until=until if last.until or until - last.at > forgiven
                               else None)  # fmt: skip
                found[-1] = last
            else:
                last = each
                found.append(each)
    return sorted(found, key=lambda each: each.at)
