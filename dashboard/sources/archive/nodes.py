"""Who a node is: its facts, its GPUs, and who runs on it."""

from collections.abc import Mapping, Sequence

import pandas as pd

from lockstep.analyzer.read.archive.series import NOBODY, Series
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import Metric
from lockstep.dashboard.shapes import Check, NodeFacts

INFOS: tuple[Metric, ...] = (
    metrics.NODE_INFO, metrics.GPU_INFO, metrics.BUILD_INFO, metrics.HOST_CPUS,
    metrics.HOST_MEMORY_TOTAL,
)  # fmt: skip
SHOWN: tuple[tuple[str, str, str], ...] = (
    ("host", metrics.NODE_INFO.name, "hostname"), ("kernel", metrics.NODE_INFO.name, "kernel"),
    ("emulated", metrics.NODE_INFO.name, "emulated"), ("GPU model", metrics.GPU_INFO.name, "model"),
    ("driver", metrics.GPU_INFO.name, "driver"), ("CUDA", metrics.GPU_INFO.name, "cuda"),
    ("VBIOS", metrics.GPU_INFO.name, "vbios"),
    ("GPUs simulated", metrics.GPU_INFO.name, "simulated"),
    ("collector", metrics.BUILD_INFO.name, "version"),
)  # fmt: skip
"""Name of the fact, metric, label."""
GIB = 1 << 30
LONGEST = 200


def facts(
    node: str, series: Sequence[Series], who: pd.DataFrame, run: str,
    places: Mapping[str, str], checks: tuple[Check, ...],
) -> NodeFacts:  # fmt: skip
    """All that is known of it.

    Args:
        node: Its name.
        series: INFOS of the node.
        who: Who the ranks are.
        run: Id of the run.
        places: Kind -> name of where it stands (rack, leaf, storage).
        checks: What was looked at.
    """
    found = {kind: name[:LONGEST] for kind, name in places.items()}
    for name, metric, label in SHOWN:
        words = {each.label.get(label, "") for each in series if each.metric == metric} - {""}
        if words:
            found[name] = ", ".join(sorted(words))[:LONGEST]
    for each in series:
        if each.metric == metrics.HOST_CPUS.name and len(each.values):
            found["processors"] = f"{each.values[-1]:.0f}"
        if each.metric == metrics.HOST_MEMORY_TOTAL.name and len(each.values):
            found["memory"] = f"{each.values[-1] / GIB:.0f} GiB"
    mine = who[who["node"] == node]
    models = {each.gpu: each.label.get("model", "")[:LONGEST] for each in series
              if each.metric == metrics.GPU_INFO.name and each.gpu != NOBODY}  # fmt: skip
    by_gpu = mine.dropna(subset=["gpu"]).set_index("gpu")
    rows = []
    for gpu in sorted({*models, *(int(each) for each in by_gpu.index)}):
        there = by_gpu.loc[[gpu]] if gpu in by_gpu.index else None
        rows.append((
            gpu, "" if there is None else there["uuid"].iloc[0], models.get(gpu, ""),
            "" if there is None else run, None if there is None else int(there["rank"].iloc[0]),
        ))  # fmt: skip
    gpus = pd.DataFrame(rows, columns=["gpu", "uuid", "model", "run", "rank"])
    return NodeFacts(
        node=node, facts=found, gpus=gpus.astype({"rank": "Int32"}),
        runs=(run,) if len(mine) else (), checks=checks,
    )  # fmt: skip
