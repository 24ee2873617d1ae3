"""Where each scraped row stands in the arrays of a fleet."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
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
        names_of_nodes, code = np.unique(ranks.node, return_inverse=True)
        self._nodes = pa.array(names_of_nodes.tolist(), type=pa.string())
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
        # Mostly all are: three extremes tell sooner than a mask.
        if (
            place.min(initial=0) < 0
            or check.min(initial=0) < 0
            or check.max(initial=0) >= len(self._told)
        ):
            known = (place >= 0) & (check >= 0) & (check < len(self._told))
            place, check, value = place[known], check[known], value[known]
        check *= self._series * self._gpus
        check += place
        self._told.reshape(-1)[check] = value

    def _row(self, batch: pa.RecordBatch) -> Integers:
        """Where in a check each row's series begins."""
        metric, labels = batch.column("metric"), batch.column("labels")
        metrics = {name: code for code, name in enumerate(metric.dictionary.to_pylist())}
        texts = {text or "": code for code, text in enumerate(labels.dictionary.to_pylist())}
        # One more of both, for rows without.
        table = np.full((len(metrics) + 1, len(texts) + 1), self._nowhere, dtype=np.int64)
        for name, row in self._rows.items():
            plain, _, text = name.removesuffix("}").partition("{")
            if plain in metrics and text in texts:
                table[metrics[plain], texts[text]] = row
            if plain in metrics and not text:
                table[metrics[plain], -1] = row
        code = _integers(metric.indices, len(metrics))
        if labels.null_count or table.shape[1] > 2:
            code *= table.shape[1]
            code += _integers(labels.indices, len(texts))
            return table.reshape(-1).take(code)
        return table[:, 0].take(code)

    def _column(self, batch: pa.RecordBatch) -> Integers:
        node = batch.column("node")
        known = compute.index_in(node.dictionary, value_set=self._nodes)
        table = _integers(known, len(self._nodes)) * (MOST_GPUS + 1)
        gpu = _integers(batch.column("gpu"), MOST_GPUS)
        if gpu.min(initial=0) < 0 or gpu.max(initial=0) > MOST_GPUS:
            gpu = np.where((gpu < 0) | (gpu > MOST_GPUS), MOST_GPUS, gpu)
        place = table.take(_integers(node.indices, 0))
        place += gpu
        column = self._of_gpu.take(place)
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
