"""Scraped samples on the axes of a Grid: which rank a sample is about, gauges, rates, last words.

One scrape of a node gives all its samples the same time, so times are looked up once a node.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzer.readers.archive.series import MAX_AGE, MAX_RATE_GAP
from analyzer.run import FloatGrid, RankInfo
from collector.contract.metrics import METRICS, RANK_UP, Kind


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The telemetry fields of Grid, as analyzer.run documents them."""

    signals: Mapping[str, FloatGrid]
    last: Mapping[str, FloatGrid]
    last_time: Mapping[str, FloatGrid]
    scraped_until: FloatGrid
    down_since: FloatGrid
    scrape_seconds: float


def telemetry(samples: pd.DataFrame, ranks: tuple[RankInfo, ...], middle: FloatGrid) -> Telemetry:
    """Samples of nodes, GPUs and ranks, told to each rank they are about.

    Args:
        samples: contract.archive.SAMPLES.
        middle: (W,) unix seconds of the middle of each window.
    """
    signals: dict[str, FloatGrid] = {}
    last: dict[str, FloatGrid] = {}
    last_time: dict[str, FloatGrid] = {}
    scraped_until = np.full(len(ranks), np.nan)
    intervals: list[float] = []
    codes, names = _keys(samples)
    time, value = (samples[name].to_numpy(dtype=float) for name in ("time", "value"))
    rank, gpu = (_numbers(samples[name]) for name in ("rank", "gpu"))
    down = (samples["metric"] == "up").to_numpy(dtype=bool) & ~(value > 0)
    for node, of_node in sorted(samples.groupby("node", observed=True).indices.items()):
        rows = np.asarray(of_node, dtype=np.int64)
        columns = np.array([i for i, info in enumerate(ranks) if info.node == node], dtype=int)
        if columns.size == 0:
            continue
        scraped = time[rows[~down[rows]]]
        scraped_until[columns] = scraped.max() if len(scraped) else np.nan
        told, about = _rows_of_ranks(rank[rows], gpu[rows], [ranks[column] for column in columns])
        if not len(told):
            continue
        told = rows[told]
        times, place = np.unique(time[told], return_inverse=True)
        intervals += [_interval(times)] * (len(times) > 1)
        order = np.argsort(codes[told], kind="stable")
        edges = np.flatnonzero(np.diff(codes[told][order])) + 1
        for series in sorted(np.split(order, edges), key=lambda some: names[codes[told[some[0]]]]):
            name = names[codes[told[series[0]]]]
            cells = np.full((len(times), len(columns)), np.nan)
            cells[place[series], about[series]] = value[told[series]]
            _remember(last, last_time, name, cells, times, columns, len(ranks))
            metric = name.partition("{")[0]
            if metric == "up" or metric.endswith("_info"):
                continue
            seen = _rates if _is_counter(metric) else _gauges
            target = signals.setdefault(name, np.full((len(middle), len(ranks)), np.nan))
            target[:, columns] = seen(cells, times, middle)
    scrape = float(np.median(intervals)) if intervals else float("nan")
    return Telemetry(signals, last, last_time, scraped_until, _down_since(samples, ranks), scrape)


def _keys(samples: pd.DataFrame) -> tuple[NDArray[np.int64], list[str]]:
    """(samples,) code of each; code -> `metric{labels}`, or the metric without other labels."""
    # Words are joined once a series, not once a sample.
    metric, metrics = pd.factorize(samples["metric"])
    text, texts = pd.factorize(samples["labels"].fillna(""))
    code, pairs = pd.factorize(metric * len(texts) + text)
    names = [
        f"{metrics[pair // len(texts)]}{{{label}}}" if (label := texts[pair % len(texts)]) else
        str(metrics[pair // len(texts)])
        for pair in pairs.tolist()
    ]  # fmt: skip
    return np.asarray(code, dtype=np.int64), names


def _numbers(cells: pd.Series) -> FloatGrid:
    """Whole numbers as floats; NaN where there is none."""
    return np.asarray(cells.astype("Int64").to_numpy(dtype=np.float64, na_value=np.nan), float)


def _rows_of_ranks(
    rank: FloatGrid, gpu: FloatGrid, ranks: list[RankInfo]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of a node and the place in `ranks` that each is about; a node's go to each of its ranks.

    A row with a rank is about that rank, one with a GPU alone about all ranks of the GPU.
    """
    of_node = np.isnan(rank) & np.isnan(gpu)
    rows = []
    for info in ranks:
        mine = (rank == info.rank) | of_node
        if info.gpu is not None:
            mine |= np.isnan(rank) & (gpu == info.gpu)
        rows.append(np.flatnonzero(mine))
    places = np.repeat(np.arange(len(ranks)), [len(some) for some in rows])
    return np.concatenate(rows), places


def _is_counter(metric: str) -> bool:
    known = METRICS.get(metric)
    return metric.endswith("_total") if known is None else known.kind is Kind.COUNTER


def _gauges(cells: FloatGrid, times: FloatGrid, middle: FloatGrid) -> FloatGrid:
    """(W, columns) value of the nearer neighbouring scrape that had it; NaN beyond MAX_AGE."""
    after = np.clip(np.searchsorted(times, middle), 0, len(times) - 1)
    before = np.maximum(after - 1, 0)
    early = np.abs(middle - times[before]) <= np.abs(times[after] - middle)
    first = _fresh(cells, times, np.where(early, before, after), middle)
    second = _fresh(cells, times, np.where(early, after, before), middle)
    return np.where(np.isnan(first), second, first)


def _fresh(
    cells: FloatGrid, times: FloatGrid, place: NDArray[np.int64], middle: FloatGrid
) -> FloatGrid:
    near = np.abs(times[place] - middle) <= MAX_AGE * _interval(times)
    return np.where(near[:, None], cells[place], np.nan)


def _rates(cells: FloatGrid, times: FloatGrid, middle: FloatGrid) -> FloatGrid:
    """(W, columns) increase per second between the scrapes around; NaN across a reset or gap."""
    if len(times) < 2:
        return np.full((len(middle), cells.shape[1]), np.nan)
    length = np.diff(times)
    rate = np.diff(cells, axis=0) / length[:, None]
    rate[rate < 0] = np.nan
    rate[length > MAX_RATE_GAP * _interval(times)] = np.nan
    place = np.clip(np.searchsorted(times, middle) - 1, 0, len(times) - 2)
    away = np.maximum(times[place] - middle, middle - times[place + 1])
    return np.where((away <= MAX_AGE * _interval(times))[:, None], rate[place], np.nan)


def _interval(times: FloatGrid) -> float:
    return float(np.median(np.diff(times))) if len(times) > 1 else 1.0


def _remember(
    last: dict[str, FloatGrid],
    last_time: dict[str, FloatGrid],
    name: str,
    cells: FloatGrid,
    times: FloatGrid,
    columns: NDArray[np.int64],
    world: int,
) -> None:
    values = last.setdefault(name, np.full(world, np.nan))
    moments = last_time.setdefault(name, np.full(world, np.nan))
    there = np.isfinite(cells)
    seen = there.any(axis=0)
    place = len(times) - 1 - np.argmax(there[::-1], axis=0)
    values[columns[seen]] = cells[place, np.arange(len(columns))][seen]
    moments[columns[seen]] = times[place][seen]


def _down_since(samples: pd.DataFrame, ranks: tuple[RankInfo, ...]) -> FloatGrid:
    """(R,) first scrape of the last unbroken row of `lockstep_rank_up 0`."""
    down = np.full(len(ranks), np.nan)
    rows = samples[samples["metric"] == RANK_UP.name].sort_values("time")
    by_rank = dict(iter(rows.groupby("rank")))
    for column, info in enumerate(ranks):
        own = by_rank.get(info.rank)
        if own is None or own["value"].iloc[-1] > 0:
            continue
        alive = own.loc[own["value"] > 0, "time"]
        gone = own.loc[own["value"] == 0, "time"]
        down[column] = gone[gone > alive.max()].min() if len(alive) else gone.min()
    return down
