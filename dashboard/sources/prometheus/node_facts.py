"""Who a node is, as its pages tell it."""

from collections.abc import Mapping, Sequence

import pandas as pd

from lockstep.analyzer.read.prometheus.promql import of_targets, series
from lockstep.analyzer.read.prometheus.questions import runs_with
from lockstep.analyzer.shapes.labels import Target, number, page_label
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import NodeFacts, Span
from lockstep.dashboard.sources.prometheus.asking import Asking, Row
from lockstep.dashboard.sources.prometheus.checks import checks
from lockstep.dashboard.sources.prometheus.living import living_last

BACK = 300.0
"""Seconds within which a run on the node is one of it, however short the span."""


def facts(
    asking: Asking, node: str, targets: Sequence[Target], span: Span, at: float,
    where: Mapping[str, str],
) -> NodeFacts:  # fmt: skip
    """protocol.Source.node.

    Args:
        asking: The Prometheus.
        node: Its name.
        targets: Its pages.
        span: Whose runs are told.
        at: Unix seconds.
        where: Rack and leaf.
    """
    pages = of_targets(targets)
    infos = asking.instant(series(m.NODE_INFO.name, pages), at)
    gpu_infos = asking.instant(series(m.GPU_INFO.name, pages), at)
    rank_infos = asking.instant(series(m.RANK_INFO.name, pages), at)
    rank_infos = living_last(asking, rank_infos, at, pages)
    told = {"node": node, "scraped at": ", ".join(sorted({one[1] for one in targets}))}
    told |= {kind: name for kind, name in where.items() if name}
    for labels, _ in infos[:1]:
        told |= {
            name: words for name in ("hostname", "kernel") if (words := page_label(labels, name))
        }
    for name in ("model", "driver", "vbios", "cuda"):
        values = sorted({labels[name] for labels, _ in gpu_infos if labels.get(name)})
        if values:
            told[f"GPU {name}"] = ", ".join(values)
    simulated = any(labels.get("simulated") == "true" for labels, _ in gpu_infos)
    if simulated:
        told["GPU telemetry"] = "simulated"
    return NodeFacts(
        node=node, facts=told, gpus=_gpus(gpu_infos, rank_infos),
        runs=runs(asking, targets, span, at), checks=checks(asking, pages, at),
    )  # fmt: skip


def runs(asking: Asking, targets: Sequence[Target], span: Span, at: float) -> tuple[str, ...]:
    """Ids of the runs that had ranks on these pages."""
    query = runs_with(series(m.RANK_UP.name, of_targets(targets)), max(BACK, span.seconds))
    found = {labels.get("run", "") for labels, _ in asking.instant(query, max(span.end, at))}
    return tuple(sorted(found - {""}))


def gpus(asking: Asking, targets: Sequence[Target], at: float) -> list[int]:
    """Indices of the GPUs that these pages tell of."""
    told = asking.instant(series(m.GPU_INFO.name, of_targets(targets)), at)
    return sorted({gpu for labels, _ in told if (gpu := number(labels, "gpu")) is not None})


def _gpus(gpus: list[Row], ranks: list[Row]) -> pd.DataFrame:
    on = {
        page_label(labels, "uuid"): (page_label(labels, "run"), number(labels, "rank"))
        for labels, _ in ranks
    }
    rows = []
    for labels, _ in gpus:
        uuid = page_label(labels, "uuid")
        run, rank = on.get(uuid, ("", None))
        rows.append((number(labels, "gpu"), uuid, labels.get("model", ""), run, rank))
    frame = pd.DataFrame(rows, columns=["gpu", "uuid", "model", "run", "rank"])
    frame = frame.astype({"gpu": "Int32", "rank": "Int32"})
    return frame.sort_values("gpu", ignore_index=True)
