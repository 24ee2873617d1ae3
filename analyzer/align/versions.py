"""The driver, firmware, kernel and GPU model of each rank, window by window.

They are labels of info series (`lockstep_gpu_info`, ...), whose value is 1; a change of software is
a new label set. NCCL's and the framework's versions are in no series: run.json has one for the run.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.shapes.run import FloatGrid, RankInfo, Versions
from lockstep.collector.contract.metrics import GPU_INFO, IB_INFO, NODE_INFO

SOURCES: Mapping[str, tuple[str, str]] = {
    "GPU driver": (GPU_INFO.name, "driver"),
    "CUDA driver API": (GPU_INFO.name, "cuda"),
    "VBIOS": (GPU_INFO.name, "vbios"),
    "GPU firmware": (GPU_INFO.name, "firmware"),
    "kernel": (NODE_INFO.name, "kernel"),
    "NIC firmware": (IB_INFO.name, "firmware"),
}
"""What it is -> the info metric and label of `lockstep.collector.contract` that report it."""
Integers = NDArray[np.int64]
LONGEST = 80
"""Characters of a version that are kept: labels come from machines that nobody vouches for."""


def versions(
    samples: pd.DataFrame, ranks: tuple[RankInfo, ...], middle: FloatGrid
) -> dict[str, Versions]:
    """What it is -> its version on each rank; software that nobody reported is no key.

    A version holds until another is reported, and before it was first reported: software does not
    change between two scrapes without a trace.

    Args:
        samples: contract.archive.SAMPLES.
        ranks: The columns.
        middle: (W,) unix seconds of the middle of each window.
    """
    metrics = {metric for metric, _ in SOURCES.values()}
    rows = samples[samples["metric"].isin(metrics) & (samples["value"] > 0)]
    rows = rows[rows["labels"].notna()].sort_values("time", kind="stable")
    columns = _columns(ranks)
    found = {}
    for what, (metric, label) in SOURCES.items():
        told = _version_rows(rows[rows["metric"] == metric], label, columns)
        if told is not None:
            found[what] = _by_window(*told, len(ranks), middle)
    return found


def with_models(samples: pd.DataFrame, ranks: tuple[RankInfo, ...]) -> tuple[RankInfo, ...]:
    """The ranks with the models of their GPUs, as they were reported last.

    Args:
        samples: contract.archive.SAMPLES.
        ranks: The columns.
    """
    rows = samples[(samples["metric"] == GPU_INFO.name) & (samples["value"] > 0)]
    rows = rows[rows["labels"].notna()].sort_values("time", kind="stable")
    told = _version_rows(rows, "model", _columns(ranks))
    known = {} if told is None else dict(zip(told[0].tolist(), told[2].tolist(), strict=True))
    return tuple(
        replace(info, model=str(known.get(column, ""))) for column, info in enumerate(ranks)
    )


def _columns(ranks: tuple[RankInfo, ...]) -> dict[tuple[str, int], list[int]]:
    """(node, GPU or -1 for all of the node) -> columns of the ranks there."""
    columns: dict[tuple[str, int], list[int]] = {}
    for column, info in enumerate(ranks):
        columns.setdefault((info.node, -1), []).append(column)
        if info.gpu is not None:
            columns.setdefault((info.node, info.gpu), []).append(column)
    return columns


def _version_rows(
    rows: pd.DataFrame, label: str, columns: Mapping[tuple[str, int], list[int]]
) -> tuple[Integers, FloatGrid, NDArray[np.object_]] | None:
    """(column, time, version), ordered so, one of a rank and scrape; None if no row has any."""
    code, texts = pd.factorize(rows["labels"])
    words = [parsed(text).get(label, "")[:LONGEST] for text in texts]
    version = np.array([*words, ""], dtype=object)[code]
    node, nodes = pd.factorize(rows["node"])
    gpu = rows["gpu"].fillna(-1).to_numpy(dtype=np.int64)
    there = version != ""
    places, inverse = np.unique(np.column_stack([node, gpu])[there], axis=0, return_inverse=True)
    ranks_of = [columns.get((str(nodes[one]), int(which)), []) for one, which in places.tolist()]
    if not any(ranks_of):
        return None
    # A row about a node is about all of its ranks: repeat it for each.
    length = np.array([len(each) for each in ranks_of])
    row, which = np.repeat(np.arange(there.sum()), length[inverse]), np.concatenate(ranks_of)
    first = np.repeat((np.cumsum(length) - length)[inverse], length[inverse])
    again = np.arange(len(row)) - np.searchsorted(row, row)
    column = which.astype(np.int64)[first + again]
    time, version = rows["time"].to_numpy(dtype=float)[there][row], version[there][row]
    order = np.lexsort((time, column))
    return _one_each(column[order], time[order], version[order])


def _one_each(
    column: Integers, time: FloatGrid, version: NDArray[np.object_]
) -> tuple[Integers, FloatGrid, NDArray[np.object_]]:
    """Several NICs in a node: all their versions together are what the node runs."""
    new = np.r_[True, (column[1:] != column[:-1]) | (time[1:] != time[:-1])]
    if new.all():
        return column, time, version
    parts = np.split(version, np.flatnonzero(new)[1:])
    joined = np.empty(len(parts), dtype=object)
    joined[:] = [", ".join(sorted(set(part))) for part in parts]
    return column[new], time[new], joined


def _by_window(
    column: Integers, time: FloatGrid, version: NDArray[np.object_], world: int, middle: FloatGrid
) -> Versions:
    code, words = pd.factorize(version, sort=True)
    first = np.r_[True, column[1:] != column[:-1]]
    new = first | np.r_[True, code[1:] != code[:-1]]
    codes: NDArray[np.int32] = np.full((len(middle), world), -1, dtype=np.int32)
    codes[:, column[first]] = code[first]
    # Changes only, which are few: most columns have one version all along.
    for place in np.flatnonzero(new & ~first):
        codes[middle >= time[place], column[place]] = code[place]
    return Versions(codes, tuple(str(word) for word in words))
