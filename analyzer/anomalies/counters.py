"""Counters that run faster than the peers': errors, packets sent again, time throttled."""

from collections.abc import Iterator

import numpy as np

from analyzer.anomalies.fleet import ComparablePanel
from analyzer.anomalies.peers import DEVIATES, peer_distances, spans
from analyzer.anomalies.robust import SMOOTHED_BINS
from analyzer.anomalies.shape import Deviation, who
from analyzer.anomalies.watched import COUNTERS, Counter, Subject
from analyzer.run import FloatGrid
from analyzer.slowness.transfers import median
from collector.contract import metrics

SM = 'domain="sm"'
LOWER_CLOCK = 0.97
"""A GPU that is throttled has a lower clock than its peers; one that is not contradicts itself, or
touches its power cap as healthy parts do."""


def counters(fleet: ComparablePanel) -> Iterator[Deviation]:
    """Deviations of each watched counter."""
    for watched in COUNTERS:
        yield from _of(fleet, watched)


def contradictions(fleet: ComparablePanel) -> Iterator[str]:
    """GPUs that tell of throttling and of a clock as high as their peers'."""
    clock = _clock_ratio(fleet)
    for watched in COUNTERS:
        if clock is None or not watched.seconds or watched.of_node:
            continue
        rate = rates(fleet.rises(watched.metric, watched.label), fleet.panel.times)
        if rate is None or watched.usual:
            continue
        for column, first, last, _ in _high(fleet, watched, rate):
            if median(clock[first:last, column]) > LOWER_CLOCK:
                place = who(*fleet.panel.places[column])
                yield f"{place} tells of being {watched.what}, and its clock is its peers'"


def rates(rises: FloatGrid | None, times: FloatGrid) -> FloatGrid | None:
    """(T, D) increase per second, from rises since what was told before.

    Smoothed over SMOOTHED_BINS by their mean, not their median: errors come in bursts.
    """
    if rises is None:
        return None
    bins = np.arange(len(rises))[:, None]
    known = np.isfinite(rises)
    before = np.full(rises.shape, -1)
    before[1:] = np.maximum.accumulate(np.where(known, bins, -1), axis=0)[:-1]
    length = times[bins] - times[np.maximum(before, 0)]
    there = known & (before >= 0) & (length > 0)
    rate = np.where(there, rises / np.where(length > 0, length, 1.0), 0.0)
    total, count = np.cumsum(rate, axis=0), np.cumsum(there, axis=0)
    total[SMOOTHED_BINS:] -= total[:-SMOOTHED_BINS].copy()
    count[SMOOTHED_BINS:] -= count[:-SMOOTHED_BINS].copy()
    return np.where(there & (count > 0), total / np.maximum(count, 1), np.nan)


def _of(fleet: ComparablePanel, watched: Counter) -> Iterator[Deviation]:
    labels = [watched.label] if watched.label else []
    panel = fleet.panel
    if watched.of_node:
        rises = panel.rises(watched.metric, *labels, without=watched.without, of_node=True)
    else:
        rises = fleet.rises(watched.metric, *labels, without=watched.without)
    rate = rates(rises, panel.times)
    if rate is None:
        return
    clock = None if watched.of_node or not watched.seconds else _clock_ratio(fleet)
    for column, first, last, size in _high(fleet, watched, rate):
        ratio = float("nan") if clock is None else median(clock[first:last, column])
        if ratio > LOWER_CLOCK or (watched.usual and np.isnan(ratio)):
            continue
        node, gpu = (panel.nodes[column], None) if watched.of_node else panel.places[column]
        speed = float(np.nanmean(rate[first:last, column]))
        begins = max(first - SMOOTHED_BINS + 1, 0)
        rose = np.flatnonzero(rate[begins : first + 1, column] > 0)
        begin = begins + (int(rose[0]) if rose.size else 0)
        text = f"{who(node, gpu)}: {_words(watched, speed)}"
        yield Deviation(watched.subject, watched.metric, node, gpu, size,
                        float(panel.times[begin]), text,
                        slows=watched.seconds or watched.subject is Subject.NVLINK)  # fmt: skip


def _high(
    fleet: ComparablePanel, watched: Counter, rate: FloatGrid
) -> list[tuple[int, int, int, float]]:
    """Columns that count faster than their peers, as peers.spans has them."""
    groups = (
        np.zeros(rate.shape, dtype=np.int64)
        if watched.of_node
        else np.broadcast_to(fleet.kind, rate.shape)
    )
    distance, _ = peer_distances(rate, groups, watched.least / DEVIATES, low=True)
    return spans(distance, 1)


def _words(watched: Counter, speed: float) -> str:
    if watched.seconds:
        return f"{watched.what} {min(speed, 1.0):.0%} of the time"
    return f"{speed:.1f} {watched.what} a second"


def _clock_ratio(fleet: ComparablePanel) -> FloatGrid | None:
    """(T, D) SM clock over that of the peers at work."""
    clock = fleet.gpus(metrics.GPU_CLOCK.name, SM)
    if clock is None:
        return None
    _, normal = peer_distances(clock, fleet.alike(works=True), 1.0)
    return clock / normal
