"""Where each scraped row stands in the arrays of a fleet."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Integers = NDArray[np.int64]

MOST_GPUS = 1024
"""Of a node; a larger index belongs to nobody."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Who the columns are; (G,) each, `gpu` -1 = none."""

    rank: Integers
    node: NDArray[np.str_]
    gpu: Integers
    uuid: NDArray[np.str_]
    stratum: NDArray[np.str_]


class Placing:
    """Puts rows of contract.archive.SAMPLES into (T, N, G), N the series that are asked for.

    A row is about a rank where it names one, else about a GPU; others and series that nobody asked
    for are left out. Several threads may take batches, because a value is written once.

    Args:
        names: N times `metric` or `metric{labels}`.
        first: Unix seconds at which the first check begins.
        period: Seconds between two checks.
        told: Where values go.
    """

    def __init__(
        self,
        ranks: Ranks,
        names: Sequence[str],
        first: float,
        period: float,
        told: NDArray[np.float64],
    ) -> None:
        _, self._series, self._gpus = told.shape
        # Places in one check; far below 0 for what nobody asked for.
        self._nowhere = -(told[0].size + 1)
        self._rows = {name: row * self._gpus for row, name in enumerate(names)}
        self._nodes = {name: place for place, name in enumerate(dict.fromkeys(ranks.node.tolist()))}
        code = np.array([self._nodes[name] for name in ranks.node.tolist()], dtype=np.int64)
        # One more row and column, for nodes and GPUs that nobody knows.
        shape = len(self._nodes) + 1, MOST_GPUS + 1
        of_gpu = np.full(shape, self._nowhere, dtype=np.int64)
        with_gpu = (ranks.gpu >= 0) & (ranks.gpu < MOST_GPUS)
        of_gpu[code[with_gpu], ranks.gpu[with_gpu]] = np.flatnonzero(with_gpu)
        self._of_gpu = of_gpu.reshape(-1)
        self._of_rank = np.full(int(ranks.rank.max(initial=-1)) + 2, self._nowhere, dtype=np.int64)
        self._of_rank[ranks.rank] = np.arange(len(ranks.rank))
        self._first, self._period = first, period
        self._told = told

    def take(self, batch: pa.RecordBatch) -> None:
        """Put the rows of one batch in their places."""
        place = self._row(batch)
        place += self._column(batch)
        since = batch.column("time").to_numpy(zero_copy_only=False) - self._first
        since /= self._period
        check = since.astype(np.int64)
        value = batch.column("value").to_numpy(zero_copy_only=False)
        # Mostly all are: three numbers tell sooner than a mask.
        if place.min(initial=0) < 0 or check.min(initial=0) < 0 or check.max() >= len(self._told):
            known = (place >= 0) & (check >= 0) & (check < len(self._told))
            place, check, value = place[known], check[known], value[known]
        check *= self._series * self._gpus
        check += place
        self._told.reshape(-1)[check] = value

    def _row(self, batch: pa.RecordBatch) -> Integers:
        """Where in a check each row's series begins."""
        metric, labels = batch.column("metric"), batch.column("labels")
        texts = [text or "" for text in labels.dictionary.to_pylist()] + [""]
        table = np.array(
            [
                self._rows.get(f"{name}{{{text}}}" if text else name, self._nowhere)
                for name in metric.dictionary.to_pylist()
                for text in texts
            ],
            dtype=np.int64,
        )
        code = _integers(metric.indices, 0) * len(texts)
        code += _integers(labels.indices, len(texts) - 1)
        return table.take(code)

    def _column(self, batch: pa.RecordBatch) -> Integers:
        node = batch.column("node")
        unknown = len(self._nodes)
        names = [self._nodes.get(name, unknown) for name in node.dictionary.to_pylist()]
        table = np.array(names, dtype=np.int64) * (MOST_GPUS + 1)
        gpu = _integers(batch.column("gpu"), MOST_GPUS)
        if gpu.min(initial=0) < 0 or gpu.max(initial=0) > MOST_GPUS:
            gpu = np.where((gpu < 0) | (gpu > MOST_GPUS), MOST_GPUS, gpu)
        column = self._of_gpu.take(table.take(_integers(node.indices, 0)) + gpu)
        rank = batch.column("rank")
        if rank.null_count < len(rank):
            number = _integers(rank, -1)
            named = number >= 0
            column[named] = self._of_rank[np.minimum(number[named], len(self._of_rank) - 1)]
        return column


def _integers(array: pa.Array, instead: int) -> Integers:
    """The values of an array of integers, with `instead` where there is none."""
    filled = array.fill_null(instead) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)
