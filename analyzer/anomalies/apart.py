"""Series that are not where the peers' are: gauges, also since they moved, and counters' rates."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from analyzer.anomalies.panel import Integers, Panel
from analyzer.anomalies.peers import LASTS_BINS, PASSING, Span, peer_distances, smooth, spans
from analyzer.anomalies.shape import Deviation, deviation
from analyzer.anomalies.watched import (
    CLOCK_SPREAD,
    POWER_SPREAD,
    SM_CLOCK,
    WATCHED,
    Subject,
    Watched,
)
from analyzer.run import FloatGrid
from analyzer.slowness.robust_stats import mean_of, median_of, spread
from analyzer.symptoms.series import MILD
from collector.contract import metrics


def apart(panel: Panel) -> Iterator[Deviation]:
    """Deviations of each watched series.

    Healthy parts are held back for power too: it deviates only where the clock is lower than the
    peers'. What is held back at their clock contradicts itself, in that span and for that reason.
    """
    clock = clock_ratio(panel)
    for watched in WATCHED:
        cells = _cells(panel, watched)
        if cells is None:
            continue
        for span in _spans(panel, watched, cells):
            lower = is_lower(clock, span)
            if lower or not (watched.usual or (watched.held and lower is False)):
                yield _told(panel, watched, cells, span)


def held_at_full_clock(panel: Panel) -> Iterator[tuple[Watched, int]]:
    """GPUs that tell of being held back, and of a clock as high as their peers'.

    What is held back has a lower clock than its peers: one of the two is wrong.
    """
    clock = clock_ratio(panel)
    for watched in WATCHED:
        cells = _cells(panel, watched) if watched.held and not watched.usual else None
        for span in () if cells is None else _spans(panel, watched, cells):
            if is_lower(clock, span) is False:
                yield watched, span.column


def clock_ratio(panel: Panel) -> FloatGrid:
    """(T, D) SM clock over that of the peers at work; NaN where either is not told."""
    clock = panel.cells(SM_CLOCK.metric, SM_CLOCK.label)
    if clock is None:
        return np.full(panel.series_of_gpus.shape, np.nan)
    return clock / peer_distances(clock, panel.alike(works=True), 1.0)[1]


def is_lower(clock: FloatGrid, span: Span) -> bool | None:
    """Whether a GPU's clock is lower than its peers' by more than healthy parts differ.

    None = either is not told.
    """
    ratio = median_of(clock[span.first : span.stop, span.column])
    return bool(ratio <= 1.0 - CLOCK_SPREAD) if np.isfinite(ratio) else None


def _cells(panel: Panel, watched: Watched) -> FloatGrid | None:
    metric, label = watched.metric, watched.label
    if watched.counts:
        return panel.rates(metric, label, without=watched.without, of_node=watched.of_node)
    cells = panel.cells(metric, label, down=watched.down, of_node=watched.of_node)
    if cells is None or watched.subject is not Subject.HEAT:
        return cells
    return _at_no_more_power(panel, cells)


def _at_no_more_power(panel: Panel, temperature: FloatGrid) -> FloatGrid:
    """Temperatures but those that the load explains; where power is not told, all."""
    power = panel.cells(metrics.GPU_POWER.name)
    if power is None:
        return temperature
    drawn, warm = (
        peer_distances(cells, panel.alike(works=False), 1.0)[1] for cells in (power, temperature)
    )
    # Who is as cool as the others counts among the peers, whatever it draws.
    explained = (power > (1.0 + POWER_SPREAD) * drawn) & (temperature > warm)
    return np.where(explained, np.nan, temperature)


def _spans(panel: Panel, watched: Watched, cells: FloatGrid) -> list[Span]:
    values = np.log(np.where(cells > 0, cells, np.nan)) if watched.relative else cells
    # Without stages, and in fleets of several runs, load differs for reasons of its own.
    groups = panel.alike(works=True, by_load=True) if watched.by_load else _peers(panel, watched)
    distance, _ = peer_distances(values, groups, watched.spread, low=watched.counts)
    found = spans(distance, watched.sign)
    if watched.by_load:
        named = {span.column for span in found}
        moved = _moved(values, _peers(panel, watched), watched)
        found += [span for span in moved if span.column not in named]
    return found


def _peers(panel: Panel, watched: Watched) -> Integers:
    """(T, D) who should have the same."""
    if watched.of_node:
        return np.zeros(panel.answered.shape, dtype=np.int64)
    if watched.counts:
        return np.broadcast_to(panel.kind, panel.series_of_gpus.shape)
    return panel.alike(works=watched.works)


def _moved(values: FloatGrid, groups: Integers, watched: Watched) -> Iterator[Span]:
    """Parts whose distance from the peers changed, once, and stayed.

    Where the load decides a level, only a change against the own past is the part's: stages of a
    pipeline differ from the start.
    """
    away = smooth(values - peer_distances(values, groups, 1.0)[1])
    # No column can move by more than it spans: of a fleet, few are left.
    width = np.nanmax(away, axis=0, initial=-np.inf) - np.nanmin(away, axis=0, initial=np.inf)
    for column in np.flatnonzero(width >= MILD * watched.spread).tolist():
        known = np.flatnonzero(np.isfinite(away[:, column]))
        series = away[known, column]
        split = best_split(series)
        if split is None:
            continue
        before, after = np.median(series[:split]), np.median(series[split:])
        rest = series - np.where(np.arange(len(series)) < split, before, after)
        size = float((after - before) / (spread(rest) + watched.spread))
        if abs(size) >= MILD and watched.sign * size >= 0:
            yield Span(column, int(known[split]), int(known[-1]) + 1, size)


def best_split(series: NDArray[np.float64]) -> int | None:
    """Where a series changes its mean most, by least squares; None if it is too short.

    The first place of the second part; both parts hold LASTS_BINS values at least. This is the
    maximum-likelihood change point of a Gaussian series with one change (Hinkley, Biometrika 57,
    1970).
    """
    count = len(series)
    if count < 2 * LASTS_BINS:
        return None
    place = np.arange(LASTS_BINS, count - LASTS_BINS + 1)
    total = np.cumsum(series)
    left = total[place - 1] / place
    right = (total[-1] - total[place - 1]) / (count - place)
    gain = (left - right) ** 2 * place * (count - place)
    return int(place[np.argmax(gain)])


def _told(panel: Panel, watched: Watched, cells: FloatGrid, span: Span) -> Deviation:
    column, bins = span.column, slice(span.first, span.stop)
    # Errors come in bursts: their mean, of which a median knows nothing.
    level = mean_of if watched.counts else median_of
    words = f"{watched.what} {watched.amount(level(cells[bins, column]))}".strip()
    if not watched.counts:
        groups = _peers(panel, watched)[bins]
        alike = groups == groups[:, [column]]
        alike[:, column] = False
        normal = median_of(cells[bins][alike])
        words += f" where its peers have {watched.amount(normal)}" if np.isfinite(normal) else ""
    first = span.first
    if watched.counts:
        # A mean rises late: it began with the first count that is in it.
        begin = max(first - 2 * PASSING, 0)
        first = begin + int(np.argmax(cells[begin : first + 1, column] > 0))
    since = panel.times[first]
    return deviation(panel, watched.subject, watched.metric, column, since, f": {words}",
                     of_node=watched.of_node, size=span.size)  # fmt: skip
