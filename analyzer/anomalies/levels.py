"""Gauges that are not where the peers' are, now or since they moved."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from analyzer.anomalies.fleet import ComparablePanel
from analyzer.anomalies.peers import DEVIATES, LASTS_BINS, peer_distances, spans
from analyzer.anomalies.robust import smooth
from analyzer.anomalies.shape import Deviation, who
from analyzer.anomalies.watched import LEVELS, Level, Subject
from analyzer.run import FloatGrid
from analyzer.slowness import transfers
from analyzer.slowness.peer_groups import MAJORITY
from analyzer.slowness.robust_stats import median
from collector.contract import metrics
from collector.contract.robust import MAD_TO_SIGMA

MORE_POWER = 1.10
"""A GPU that draws a tenth more than its peers is warmer for that reason."""
WIDTH, GENERATION = metrics.GPU_PCIE_WIDTH.name, metrics.GPU_PCIE_GENERATION.name
PCIE_SPREAD = 0.3
"""Octaves of what the link can carry: half of the peers' is 3.3 spreads."""


def levels(fleet: ComparablePanel) -> Iterator[Deviation]:
    """Deviations of each watched gauge, and of the PCIe link's speed."""
    for watched in LEVELS:
        label = [watched.label] if watched.label else []
        cells = fleet.down(watched.metric) if watched.down else fleet.gpus(watched.metric, *label)
        if cells is None:
            continue
        if watched.subject is Subject.HEAT:
            cells = _at_no_more_power(fleet, cells)
        yield from _apart(fleet, watched, cells)
    yield from _pcie(fleet)


def _apart(fleet: ComparablePanel, watched: Level, cells: FloatGrid) -> Iterator[Deviation]:
    values = np.log(np.where(cells > 0, cells, np.nan)) if watched.relative else cells
    kinds = fleet.alike(works=watched.works)
    static = kinds
    if watched.by_load:
        static = fleet.alike(works=watched.works, by_load=True)
        # Without stages, and in fleets of several runs, load differs for reasons of its own.
        static = np.where(fleet.stage >= 0, static, -1)
    distance, _ = peer_distances(values, static, watched.spread)
    named = set()
    for column, first, last, size in spans(distance, watched.sign):
        named.add(column)
        yield _deviation(fleet, watched, cells, kinds, (column, first, last), size)
    if watched.by_load:
        for column, first, last, size in _moved(values, kinds, watched):
            if column not in named:
                yield _deviation(fleet, watched, cells, kinds, (column, first, last), size)


def _moved(
    values: FloatGrid, groups: NDArray[np.int64], watched: Level
) -> Iterator[tuple[int, int, int, float]]:
    """Parts whose distance from the peers changed, once, and stayed.

    Where the load decides a level, only a change against the own past is the part's: stages of a
    pipeline differ from the start.
    """
    away = np.full(values.shape, np.nan)
    for group in np.unique(groups[groups >= 0]):
        mine = np.where(groups == group, values, np.nan)
        enough = np.isfinite(mine).sum(axis=1, keepdims=True) >= MAJORITY
        away = np.where(np.isfinite(mine) & enough, mine - median(mine, 1)[:, None], away)
    away = smooth(away)
    # No column can move by more than it spans: of a fleet, few are left.
    spread = np.nanmax(away, axis=0, initial=-np.inf) - np.nanmin(away, axis=0, initial=np.inf)
    for column in np.flatnonzero(spread >= DEVIATES * watched.spread).tolist():
        known = np.flatnonzero(np.isfinite(away[:, column]))
        series = away[known, column]
        split = best_split(series)
        if split is None:
            continue
        before, after = np.median(series[:split]), np.median(series[split:])
        rest = np.abs(series - np.where(np.arange(len(series)) < split, before, after))
        size = float((after - before) / (MAD_TO_SIGMA * np.median(rest) + watched.spread))
        if abs(size) >= DEVIATES and watched.sign * size >= 0:
            yield column, int(known[split]), int(known[-1]) + 1, size


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


def _deviation(
    fleet: ComparablePanel, watched: Level, cells: FloatGrid, groups: NDArray[np.int64],
    span: tuple[int, int, int], size: float,
) -> Deviation:  # fmt: skip
    column, first, last = span
    node, gpu = fleet.panel.places[column]
    mine = transfers.median(cells[first:last, column])
    alike = groups[first:last] == groups[first:last, [column]]
    alike[:, column] = False
    normal = transfers.median(cells[first:last][alike])
    unit, scale = watched.unit, watched.scale
    digits = 1 if watched.unit == " °C" else 0
    text = f"{who(node, gpu)}: {watched.what} {mine / scale:.{digits}f}{unit}"
    if np.isfinite(normal):
        text += f" where its peers have {normal / scale:.{digits}f}{unit}"
    return Deviation(watched.subject, watched.metric, node, gpu, size,
                     float(fleet.panel.times[first]), text,
                     slows=watched.subject is Subject.CLOCK)  # fmt: skip


def _at_no_more_power(fleet: ComparablePanel, temperature: FloatGrid) -> FloatGrid:
    """Temperatures but those that the load explains; where power is not told, all."""
    power = fleet.gpus(metrics.GPU_POWER.name)
    if power is None:
        return temperature
    groups = fleet.alike(works=False)
    _, drawn = peer_distances(power, groups, 1.0)
    _, warm = peer_distances(temperature, groups, 1.0)
    # Who is as cool as the others counts among the peers, whatever it draws.
    explained = (power > MORE_POWER * drawn) & (temperature > warm)
    return np.where(explained, np.nan, temperature)


def _pcie(fleet: ComparablePanel) -> Iterator[Deviation]:
    """Links that carry less than the peers' while the GPU works, when none saves power."""
    width, generation = fleet.gpus(WIDTH), fleet.gpus(GENERATION)
    if width is None:
        return
    age = np.ones(width.shape) if generation is None else generation
    octaves = np.log2(np.where(width > 0, width, np.nan)) + age - 1.0
    groups = fleet.alike(works=True)
    distance, _ = peer_distances(octaves, groups, PCIE_SPREAD)
    for column, first, last, size in spans(distance, -1):
        node, gpu = fleet.panel.places[column]
        others = groups[first:last] == groups[first:last, [column]]
        others[:, column] = False
        lanes, normal = (
            transfers.median(width[first:last, column]),
            transfers.median(width[first:last][others]),
        )
        link, peers = f"x{lanes:.0f}", f"x{normal:.0f}"
        if generation is not None:
            link += f" generation {transfers.median(generation[first:last, column]):.0f}"
            peers += f" generation {transfers.median(generation[first:last][others]):.0f}"
        text = f"{who(node, gpu)}: PCIe link {link} where its peers have {peers}"
        yield Deviation(Subject.PCIE, WIDTH, node, gpu, size,
                        float(fleet.panel.times[first]), text, slows=True)  # fmt: skip
