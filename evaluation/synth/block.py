"""Series of one metric over the whole fleet, and how they become the frame of samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.evaluation.synth.fleet import GPUS_PER_NODE
from lockstep.evaluation.synth.scrapes import Scrapes


class About(StrEnum):
    """Whose a series is."""

    RANK = "rank"
    GPU = "gpu"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Block:
    """One series of each rank, GPU or node.

    Attributes:
        metric: A name of contract.metrics.
        labels: As in contract.archive.SAMPLES.
        about: Whose they are.
        values: (T, R) or, about nodes, (T, N); NaN = absent. One row is a constant.
    """

    metric: str
    labels: str
    about: About
    values: FloatGrid


def frame(blocks: Sequence[Block], seen: Scrapes, nodes: range | None = None) -> pd.DataFrame:
    """contract.archive.SAMPLES, one row a value that is there; of some nodes or of all."""
    names = np.array([f"node-{n}" for n in range(seen.time.shape[1])], dtype=object)
    columns = {About.NODE: np.arange(len(names)), About.RANK: np.arange(len(seen.node_of))}
    if nodes is not None:
        columns = {
            About.NODE: np.array(nodes),
            About.RANK: np.flatnonzero(np.isin(seen.node_of, np.array(nodes))),
        }
    times = {About.NODE: seen.time, About.RANK: seen.rank_time}
    parts: list[tuple[FloatGrid, NDArray[np.int64], NDArray[np.int64]]] = []
    here: list[Block] = []
    for each in blocks:
        column_of = About.NODE if each.about is About.NODE else About.RANK
        mine, time = columns[column_of], times[column_of]
        values = each.values if each.values.shape[1] == 1 else each.values[:, mine]
        if not np.isfinite(values).any():
            continue
        values = np.broadcast_to(values, (len(time), len(mine)))
        row, column = np.nonzero(np.isfinite(values))
        parts.append((values[row, column], row, mine[column]))
        here.append(each)
    counts = [len(part[0]) for part in parts]
    column = np.concatenate([part[2] for part in parts])
    row = np.concatenate([part[1] for part in parts])

    def spread(each: Sequence[object]) -> NDArray[np.object_]:
        return np.repeat(np.array(each, dtype=object), counts)

    about = spread([block.about for block in here])
    of_node, of_rank = about == About.NODE, about == About.RANK
    node = np.where(of_node, column, seen.node_of[np.where(of_node, 0, column)])
    gpu = np.where(about == About.GPU, column % GPUS_PER_NODE, -1)
    told = pd.DataFrame(
        {
            "time": seen.time[row, node],
            "node": pd.array(names[node], dtype="str"),
            "gpu": pd.array(gpu, dtype="Int32"),
            "rank": pd.array(np.where(of_rank, column, -1), "Int32"),
            "metric": pd.array(spread([block.metric for block in here]), dtype="str"),
            "labels": pd.array(spread([block.labels for block in here]), dtype="str"),
            "value": np.concatenate([part[0] for part in parts]),
        }
    )
    return told.assign(
        gpu=told["gpu"].mask(told["gpu"] < 0), rank=told["rank"].mask(told["rank"] < 0)
    )
