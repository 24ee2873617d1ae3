"""Collectives of a run: from NCCL's Inspector where it tells, else from the ranks' counters."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lockstep.analyzer.read.prometheus.promql import lasting, one_of, series
from lockstep.analyzer.shapes.labels import number
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.directory import Member, sample

COLUMNS = ["op", "group", "count", "bytes", "median_seconds", "p95_seconds", "total_seconds",
           "busbw", "late_rank", "late_seconds"]  # fmt: skip
LONGEST = 6 * 3600.0
"""Seconds before the end that are read."""
ALL = "all operations"


def collectives(
    asking: Asking, run: str, found: Sequence[Member], span: Span, scrape: float
) -> pd.DataFrame:
    """protocol.Source.collectives; `late_rank` is who waits least (docs/method/waits.md)."""
    back = lasting(min(LONGEST, max(span.seconds, 4 * scrape)))
    rows = _counted(asking, run, found, span.end, back) + _inspected(asking, run, span.end, back)
    frame = pd.DataFrame(rows, columns=COLUMNS).astype({"late_rank": "Int64"})
    return frame.sort_values("total_seconds", ascending=False, ignore_index=True)


def _counted(
    asking: Asking, run: str, found: Sequence[Member], at: float, back: str
) -> list[tuple[object, ...]]:
    """By group: seconds from arrival to completion, over the ranks that are asked."""
    ranks = "rank=~" + one_of([str(one.rank) for one in sample(found)])
    told: list[dict[tuple[str, int], float]] = []
    for metric in (m.TRAIN_COLLECTIVE, m.TRAIN_COLLECTIVES):
        query = f"sum by (group, rank) (increase({series(metric.name, ranks, run=run)}[{back}]))"
        told.append({
            (labels.get("group", ""), rank): value
            for labels, value in asking.instant(query, at)
            if (rank := number(labels, "rank")) is not None
        })  # fmt: skip
    seconds, counts = told
    rows: list[tuple[object, ...]] = []
    for group in sorted({group for group, _ in counts}):
        mean = {
            rank: seconds.get((of, rank), np.nan) / count
            for (of, rank), count in counts.items()
            if of == group and count > 0
        }
        known = {rank: value for rank, value in mean.items() if np.isfinite(value)}
        if not known:
            continue
        values = np.array(list(known.values()))
        late = min(known, key=lambda rank: known[rank])
        count = max(value for (of, _), value in counts.items() if of == group)
        total = max(value for (of, _), value in seconds.items() if of == group)
        behind = float(np.median(values) - known[late])
        middle, high = np.quantile(values, (0.5, 0.95)).tolist()
        rows.append(
            (ALL, group, round(count), np.nan, middle, high, total, np.nan, late, behind)
        )  # fmt: skip
    return rows


def _inspected(asking: Asking, run: str, at: float, back: str) -> list[tuple[object, ...]]:
    by = "op, group, size_bucket"

    def instant(query: str) -> dict[tuple[str, str, str], float]:
        return {
            (labels.get("op", ""), labels.get("group", ""), labels.get("size_bucket", "")): value
            for labels, value in asking.instant(query, at)
        }

    def grown(metric: m.Metric) -> dict[tuple[str, str, str], float]:
        return instant(f"sum by ({by}) (increase({series(metric.name, run=run)}[{back}]))")

    counts = grown(m.NCCL_COLLECTIVES)
    if not counts:
        return []
    sizes = grown(m.NCCL_BYTES)
    bandwidth = instant(f"avg by ({by}) ({series(m.NCCL_BUS_BANDWIDTH.name, run=run)})")
    whole_name = m.NCCL_DURATION.name
    buckets = (
        f"sum by (le, op, group) (increase({series(whole_name + '_bucket', run=run)}[{back}]))"
    )
    middle, high = (instant(f"histogram_quantile({q}, {buckets})") for q in (0.5, 0.95))
    rows: list[tuple[object, ...]] = []
    for (op, group, size), count in counts.items():
        if count <= 0:
            continue
        median = middle.get((op, group, ""), np.nan)
        rows.append((
            op, group, round(count), sizes.get((op, group, size), np.nan) / count, median,
            high.get((op, group, ""), np.nan), median * count,
            bandwidth.get((op, group, size), np.nan), None, np.nan,
        ))  # fmt: skip
    return rows
