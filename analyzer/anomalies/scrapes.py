"""Samples -> a Panel: one scrape a bin and node."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzer.anomalies.panel import Panel, Place, Rows
from analyzer.readers.archive import LATEST
from analyzer.run import FloatGrid

SCRAPE_SECONDS = 15.0
"""Where no node was scraped twice: Prometheus' usual interval."""
LATE_SCRAPES = 0.9
"""A bin is as wide as this share of the pauses between scrapes, so that few bins stay empty where
scrapes come late; where they come on time it is the interval."""
MOST_BINS = 2_000
"""Longer recordings are looked at in wider bins: eight hours at 15 s fit as they are."""
LARGEST = 1e30
"""No metric of the contract comes near; below it, sums and differences stay finite too."""


def panel(samples: pd.DataFrame) -> Panel:
    """The panel of contract.archive.SAMPLES; of several scrapes in a bin the last one counts.

    Values that no hardware has are dropped: NaN, infinite and beyond LARGEST.
    """
    time = samples["time"].to_numpy(dtype=float)
    keep = (time >= 0) & (time <= LATEST)
    samples, time = samples[keep], time[keep]
    node, names = pd.factorize(samples["node"], sort=True)
    moment, moments = pd.factorize(time, sort=True)
    scrape = node * max(len(moments), 1) + moment
    scrapes = np.unique(scrape)
    of_node, at = np.divmod(scrapes, max(len(moments), 1))
    when = np.asarray(moments, dtype=float)[at]
    width = _width(of_node, when)
    begin = float(when.min()) if len(when) else 0.0
    bins = ((when - begin) / width).astype(np.int64)
    last = np.ones(len(scrapes), dtype=bool)
    last[:-1] = (of_node[1:] != of_node[:-1]) | (bins[1:] != bins[:-1])
    place = np.searchsorted(scrapes, scrape)
    gpu = samples["gpu"].to_numpy(dtype=float, na_value=np.nan)
    text, labels = pd.factorize(samples["labels"].fillna(""))
    name, words = pd.factorize(samples["metric"])
    value = samples["value"].to_numpy(dtype=float)
    failed = (words[name] == "up") & (value == 0) if len(words) else np.zeros(0, dtype=bool)
    count = int(bins.max()) + 1 if len(bins) else 0
    answered = np.zeros((count, len(names)), dtype=bool)
    answered[bins[place[~failed]], node[~failed]] = True
    number, places = _places(node, gpu, names)
    kept = np.flatnonzero(last[place] & ~failed & (np.abs(value) <= LARGEST))
    kept = kept[np.argsort(name[kept], kind="stable")]
    edges = np.searchsorted(name[kept], np.arange(len(words) + 1))
    rows = {
        str(word): Rows(bins[place[mine]], node[mine], number[mine], text[mine], value[mine])
        for code, word in enumerate(words)
        if len(mine := kept[edges[code] : edges[code + 1]])
    }
    return Panel(
        times=begin + width * np.arange(count, dtype=np.float64),
        seconds=width,
        nodes=tuple(str(each) for each in names),
        places=places,
        answered=answered,
        labels=tuple(str(each) for each in labels),
        node_of=pd.Index(names).get_indexer([each for each, _ in places]).astype(np.int64),
        rows=rows,
    )


def _width(of_node: NDArray[np.int64], when: FloatGrid) -> float:
    same = of_node[1:] == of_node[:-1]
    steps = np.diff(when)[same]
    steps = steps[steps > 0]
    usual = float(np.quantile(steps, LATE_SCRAPES)) if steps.size else SCRAPE_SECONDS
    span = float(when.max() - when.min()) if len(when) else 0.0
    return max(usual, span / MOST_BINS)


def _places(
    node: NDArray[np.int64], gpu: FloatGrid, names: pd.Index
) -> tuple[NDArray[np.int64], tuple[Place, ...]]:
    """(number of the GPU each sample is about or -1, the GPUs)."""
    known = np.isfinite(gpu) & (gpu >= 0)
    number = np.full(len(gpu), -1, dtype=np.int64)
    if not known.any():
        return number, ()
    stride = int(gpu[known].max()) + 1
    found, number[known] = np.unique(
        node[known] * stride + gpu[known].astype(np.int64), return_inverse=True
    )
    pairs = zip(*(each.tolist() for each in np.divmod(found, stride)), strict=True)
    return number, tuple((str(names[each]), index) for each, index in pairs)
