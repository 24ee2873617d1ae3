"""What scrapes of a run saw, as rows of samples.parquet."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tests.benchmarks.simulated.arrays import Floats, Ints


@dataclass(frozen=True)
class Block:
    """Values of one series, and the times of their scrapes."""

    node: str
    gpu: int
    rank: int
    metric: int
    labels: int
    times: Floats
    values: Floats


@dataclass
class Samples:
    """Gathers series. A gpu or rank of -1 is none; NaN is no sample."""

    blocks: list[Block] = field(default_factory=list)
    words: dict[str, int] = field(default_factory=dict)

    def add(
        self, node: str, gpu: int, rank: int, metric: str, labels: str, times: Floats,
        values: npt.ArrayLike,
    ) -> None:  # fmt: skip
        """`values` may be one for all times; the metric is named without `lockstep_`."""
        known = np.broadcast_to(np.asarray(values, float), times.shape)
        there = ~np.isnan(known)
        if not there.any():
            return
        name = metric if metric == "up" else f"lockstep_{metric}"
        self.blocks.append(
            Block(node, gpu, rank, self._code(name), self._code(labels), times[there], known[there])
        )

    def _code(self, word: str) -> int:
        return self.words.setdefault(word, len(self.words))

    def table(self) -> Any:
        """By time, as an Arrow table with the columns of the contract."""
        blocks = self.blocks
        counts = np.array([len(block.times) for block in blocks])
        times = np.concatenate([block.times for block in blocks])
        order = np.argsort(times, kind="stable")
        nodes = sorted({block.node for block in blocks})
        place = {node: number for number, node in enumerate(nodes)}

        def spread(codes: list[int]) -> Ints:
            return np.repeat(np.array(codes, np.int64), counts)[order]

        def text(codes: list[int], words: list[str]) -> Any:
            index = pa.array(spread(codes).astype(np.int32))
            coded = pa.DictionaryArray.from_arrays(index, pa.array(words, pa.string()))
            return coded.cast(pa.string())

        def number(codes: list[int]) -> Any:
            values = spread(codes)
            return pa.array(values.astype(np.int32), pa.int32(), mask=values < 0)

        words = list(self.words)
        return pa.table(
            {
                "time": pa.array(times[order]),
                "node": text([place[block.node] for block in blocks], nodes),
                "gpu": number([block.gpu for block in blocks]),
                "rank": number([block.rank for block in blocks]),
                "metric": text([block.metric for block in blocks], words),
                "labels": text([block.labels for block in blocks], words),
                "value": pa.array(np.concatenate([block.values for block in blocks])[order]),
            }
        )


def labels(**words: object) -> str:
    """As the contract writes them: sorted, joined by commas."""
    return ",".join(f'{name}="{words[name]}"' for name in sorted(words))
