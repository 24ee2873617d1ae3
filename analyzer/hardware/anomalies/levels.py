"""Series that are not where the peers' are: gauges, also since they moved, and counters' rates."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.causes.symptoms.series import MILD
from lockstep.analyzer.hardware.anomalies.deviation import Deviation, as_deviation
from lockstep.analyzer.hardware.anomalies.distances import (
    LASTS_BINS,
    PASSING,
    Span,
    peer_distances,
    smooth,
    spans,
)
from lockstep.analyzer.hardware.anomalies.panel import Integers, Panel
from lockstep.analyzer.hardware.anomalies.watched_metrics import (
    CLOCK_SPREAD,
    POWER_SPREAD,
    SM_CLOCK,
    WATCHED,
    Subject,
    Watched,
)
from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.robust_stats import mean_of, median, median_of, spread
from lockstep.collector.contract import metrics


def level_deviations(panel: Panel) -> Iterator[Deviation]:
    """Deviations of each watched series.

    Healthy parts are held back for power too: it deviates only where the clock is lower than the
    peers'. What is held back at their clock contradicts itself, in that span and for that reason.
    """
    for watched in WATCHED:
        cells = _cells(panel, watched)
        if cells is None:
            continue
        for span, lower in _with_clock(panel, watched, cells):
            deviates = lower or not (watched.usual or (watched.held and lower is False))
            if deviates and (deviation := _told(panel, watched, cells, span)) is not None:
                yield deviation


def held_at_full_clock(panel: Panel) -> Iterator[tuple[Watched, int]]:
    """GPUs that report being held back, and a clock as high as their peers'.

    What is held back has a lower clock than its peers: one of the two is wrong.
    """
    for watched in WATCHED:
        cells = _cells(panel, watched) if watched.held and not watched.usual else None
        for span, lower in () if cells is None else _with_clock(panel, watched, cells):
            if lower is False:
                yield watched, span.column


def _with_clock(
    panel: Panel, watched: Watched, cells: FloatGrid
) -> Iterator[tuple[Span, bool | None]]:
    """Where it deviates, and whether the clock is lower there than that of GPUs not held back.

    By more than healthy parts differ. A clock is read in an instant, and seconds of being held back
    count all of the time between two scrapes: of one that is held back in bursts as many scrapes
    see a lower clock as that is a share of the time, and their median may be none of these. So it
    is the mean of the scrapes in which its seconds rose. Where healthy parts are held back too,
    most of the time tells.

    None where not known, or it was held back for less than a deviation lasts: no scrape had to
    meet that.
    """
    found = _spans(panel, watched, cells)
    if not found or not watched.held:
        yield from ((span, None) for span in found)
        return
    rises = panel.rises(watched.metric, watched.label, without=watched.without)
    held = np.zeros(cells.shape, bool) if rises is None or watched.usual else rises > 0
    clock = _clock_ratio(panel, held)
    for span in found:
        inside = slice(span.first, span.stop), span.column
        seconds = LASTS_BINS if watched.usual else np.nansum(np.minimum(cells[inside], 1.0))
        level = median_of(clock[inside]) if watched.usual else mean_of(clock[inside][held[inside]])
        lower = bool(level <= 1.0 - CLOCK_SPREAD)
        known = np.isfinite(level) and (lower or seconds >= LASTS_BINS)
        yield span, lower if known else None


def _clock_ratio(panel: Panel, held: NDArray[np.bool_]) -> FloatGrid:
    """(T, D) SM clock over that of the peers at work; NaN where either is not known.

    Args:
        panel: The hardware.
        held: (T, D) who is held back, and nobody's peer where others are not.
    """
    clock = panel.cells(SM_CLOCK.metric, SM_CLOCK.label)
    if clock is None:
        return np.full(panel.series_of_gpus.shape, np.nan)
    groups = panel.alike(works=True)
    normal = peer_distances(clock, groups, 1.0)[1]
    for group in np.unique(groups[held & (groups >= 0)]):
        free = median(np.where((groups == group) & ~held, clock, np.nan), 1)[:, None]
        normal = np.where((groups == group) & held & np.isfinite(free), free, normal)
    return clock / normal


def _cells(panel: Panel, watched: Watched) -> FloatGrid | None:
    metric, label = watched.metric, watched.label
    if watched.counts:
        return panel.rates(
            metric, label, without=watched.without, of_node=watched.of_node, most=watched.most
        )
    cells = panel.cells(metric, label, down=watched.down, of_node=watched.of_node)
    if cells is None or watched.subject is not Subject.HEAT:
        return cells
    return _at_no_more_power(panel, cells)


def _at_no_more_power(panel: Panel, temperature: FloatGrid) -> FloatGrid:
    """Temperatures but those that the load explains; where power is not known, all."""
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
    positions = np.arange(LASTS_BINS, count - LASTS_BINS + 1)
    total = np.cumsum(series)
    left = total[positions - 1] / positions
    right = (total[-1] - total[positions - 1]) / (count - positions)
    gain = (left - right) ** 2 * positions * (count - positions)
    return int(positions[np.argmax(gain)])


def _told(panel: Panel, watched: Watched, cells: FloatGrid, span: Span) -> Deviation | None:
    """The deviation in words; None where these show no difference.

    Who was compared with what slow peers had seems to move when they are well again.
    """
    column, bins = span.column, slice(span.first, span.stop)
    # Errors come in bursts: their mean, of which a median knows nothing.
    level = mean_of if watched.counts else median_of
    amount = watched.amount(level(cells[bins, column]))
    words = f"{watched.what} {amount}".strip()
    if not watched.counts:
        than = _compared(panel, watched, cells, span, amount)
        if than is None:
            return None
        words += than
    first = span.first
    if watched.counts:
        # A mean rises late: it began with the first count that is in it.
        begin = max(first - 2 * PASSING, 0)
        first = begin + int(np.argmax(cells[begin : first + 1, column] > 0))
    since = panel.times[first]
    return as_deviation(panel, watched.subject, watched.metric, column, since, f": {words}",
                     of_node=watched.of_node, size=span.size)  # fmt: skip


def _compared(
    panel: Panel, watched: Watched, cells: FloatGrid, span: Span, amount: str
) -> str | None:
    """What a gauge's level is compared with: the peers', or, where that is the same, its own past.

    Empty where neither is known; None where it is the same as all that is.
    """
    bins, column = slice(span.first, span.stop), span.column
    groups = _peers(panel, watched)[bins]
    alike = groups == groups[:, [column]]
    alike[:, column] = False
    normal, past = median_of(cells[bins][alike]), median_of(cells[: span.first, column])
    known = {
        watched.amount(value): words
        for value, words in ((past, " where it had {}"), (normal, " where its peers have {}"))
        if np.isfinite(value)
    }
    if not known:
        return ""
    other = [words.format(told) for told, words in known.items() if told != amount]
    return other[-1] if other else None
