"""The columns of samples as numbers: each word is parsed once, not once a sample.

Of 2,048 ranks in a quarter of an hour there are 20 million samples: what is made of all of them at
once is narrow, and the rest is made of some rows.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid

Integers = NDArray[np.int64]
Rows = NDArray[np.integer[Any]]
NO_NUMBER = -(2**31)
"""In a column of whole numbers: not reported. No rank and no GPU is it."""
SOME_ROWS = 1 << 18
"""Samples that are sorted at once: sorting all of them takes as much memory again."""


class SampleColumns:
    """Samples, with S rows.

    Args:
        samples: contract.archive.SAMPLES.

    Attributes:
        time, value: (S,) as they are reported.
        metric: (S,) place in `metrics`; -1 = none.
        metrics, labels: The words.
    """

    def __init__(self, samples: pd.DataFrame) -> None:
        self.time, self.value = (samples[name].to_numpy(dtype=float) for name in ("time", "value"))
        self.metric, self.metrics = _coded(samples["metric"])
        self._samples, self._numbers = samples, dict[str, NDArray[np.integer[Any]]]()
        self._node, self._nodes = _coded(samples["node"])
        self._label, self.labels = _coded(samples["labels"])
        if "" not in self.labels:
            self.labels.append("")
        self._unlabelled = self.labels.index("")

    def nodes(self) -> Iterator[tuple[str, NDArray[np.int32]]]:
        """Each node that reported anything, with its rows in their order."""
        parts: list[list[NDArray[np.int32]]] = [[] for _ in self._nodes]
        for begin in range(0, len(self._node), SOME_ROWS):
            code = self._node[begin : begin + SOME_ROWS]
            order = np.argsort(code, kind="stable").astype(np.int32)
            edges = np.flatnonzero(np.diff(code[order])) + 1
            for rows in np.split(order, edges):
                if code[rows[0]] >= 0:
                    parts[code[rows[0]]].append(rows + np.int32(begin))
        for node, some in zip(self._nodes, parts, strict=True):
            if some:
                yield node, np.concatenate(some)
                some.clear()

    def label(self, rows: Rows) -> NDArray[np.int32]:
        """Place in `labels` of each of some rows."""
        label = self._label[rows].astype(np.int32)
        label[label < 0] = self._unlabelled
        return label

    def numbers(self, name: str, rows: Rows) -> FloatGrid:
        """Whole numbers, `rank` or `gpu`, of some rows; NaN where there is none."""
        if name not in self._numbers:
            self._numbers[name] = _narrow(self._samples[name])
        found = self._numbers[name][rows].astype(float)
        found[found == NO_NUMBER] = np.nan
        return found

    def is_up(self, rows: Rows) -> NDArray[np.bool_]:
        """Whether each of some rows says how its scrape went."""
        code = self.metrics.index("up") if "up" in self.metrics else len(self.metrics)
        return np.asarray(self.metric[rows] == code)


def numbered(values: FloatGrid) -> tuple[Integers, FloatGrid]:
    """(place of each value in the second, the different values, rising)."""
    # Many values, few different ones: hashing them takes a tenth of sorting them.
    place, found = pd.factorize(values)
    rising = np.sort(found)
    return np.searchsorted(rising, found)[place], rising


def _narrow(cells: pd.Series) -> NDArray[np.integer[Any]]:
    """(S,) whole numbers, NO_NUMBER where there is none; wide only where they may be large."""
    told = isinstance(cells.dtype, pd.Int32Dtype)
    cells = cells if told else cells.astype("Int64")
    return cells.to_numpy(dtype=np.int32 if told else np.int64, na_value=NO_NUMBER)


def _coded(words: pd.Series) -> tuple[Rows, list[str]]:
    """(S,) number of each word, -1 = none; the words."""
    if isinstance(words.array, pd.Categorical):
        # Series.cat.codes would be a copy.
        return words.array.codes, [str(word) for word in words.array.categories]
    code, found = pd.factorize(words, sort=True)
    return code, [str(word) for word in found]
