"""One value a GPU, out of an archive: at its end, or at a moment."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from lockstep.analyzer.read.archive.series import NOBODY, Series
from lockstep.collector.contract import metrics
from lockstep.collector.contract.metrics import Metric
from lockstep.dashboard.shapes import FleetMetric, FleetSnapshot
from lockstep.dashboard.sources.archive.charts import belongs, metrics_of
from lockstep.dashboard.sources.chart_table import FLEET_ROWS

OF_RANKS = {"slowdown": "slowdown", "wait": "wait_share"}
"""Metric of the fleet -> column of the ranks' table."""
LOOK_BACK = 2.5
"""Scrape intervals within which a value is still one of that moment."""
STEPS_BACK = 120.0
"""Seconds of steps from which a rank's own time is taken."""


def wanted(metric: FleetMetric) -> tuple[Metric, ...]:
    """What to read of samples; GPU_UP says which GPUs there are."""
    return (*metrics_of(FLEET_ROWS.get(metric.key, ())), metrics.GPU_UP)


def fleet(
    metric: FleetMetric, at: float, series: Sequence[Series], who: pd.DataFrame,
    ranks: Callable[[], pd.DataFrame], nodes: Sequence[str], *, run: str, simulated: bool,
) -> FleetSnapshot:  # fmt: skip
    """The map.

    Args:
        metric: What it shows.
        at: Unix seconds.
        series: `wanted`, of the last scrapes before it.
        who: Who the ranks are.
        ranks: Gives the table of ranks.
        nodes: In the order of the map.
        run: Id of the run.
        simulated: Whether the GPUs are.
    """
    values: dict[tuple[str, int], float] = {}
    places = {(line.node, line.gpu) for line in series if line.gpu != NOBODY}
    on = {(node, gpu): int(rank)
          for node, gpu, rank in zip(who["node"], who["gpu"].fillna(NOBODY), who["rank"],
                                     strict=True) if gpu != NOBODY}  # fmt: skip
    places |= on.keys()
    if not places:
        # On CPU a place is a rank.
        return _of_ranks(metric, at, who, ranks(), nodes, run)
    if metric.key in OF_RANKS:
        by_rank = ranks().set_index("rank")[OF_RANKS[metric.key]].to_dict()
        values = {place: float(by_rank.get(rank, math.nan)) for place, rank in on.items()}
    else:
        rows = FLEET_ROWS[metric.key]
        for line in series:
            known = line.gpu != NOBODY and len(line.values)
            if known and any(belongs(line, row) for row in rows):
                place = (line.node, line.gpu)
                values[place] = values.get(place, 0.0) + float(line.values[-1])
    order = {node: at for at, node in enumerate(nodes)}
    ordered = sorted(places, key=lambda place: (order.get(place[0], len(order)), place))
    ids = [on.get(place, NOBODY) for place in ordered]
    heard = {line.node for line in series}
    return FleetSnapshot(
        metric=metric, at=at,
        nodes=np.array([node for node, _ in ordered], dtype=np.str_),
        gpus=np.array([gpu for _, gpu in ordered], dtype=np.int32),
        ranks=np.array(ids, dtype=np.int32),
        runs=np.array([run if rank != NOBODY else "" for rank in ids], dtype=np.str_),
        values=np.array([values.get(place, math.nan) for place in ordered], dtype=np.float32),
        silent=tuple(node for node in nodes if node not in heard), simulated=simulated,
    )  # fmt: skip


def _of_ranks(
    metric: FleetMetric, at: float, who: pd.DataFrame, ranks: pd.DataFrame, nodes: Sequence[str],
    run: str,
) -> FleetSnapshot:  # fmt: skip
    by_rank = ranks.set_index("rank")
    column = OF_RANKS.get(metric.key)
    ids = who["rank"].to_numpy(np.int32)
    values = (
        by_rank[column].reindex(ids).to_numpy(np.float32) if column else np.full(len(ids), np.nan)
    )
    return FleetSnapshot(
        metric=metric, at=at, nodes=who["node"].to_numpy(np.str_),
        gpus=np.full(len(ids), NOBODY, dtype=np.int32), ranks=ids,
        runs=np.full(len(ids), run, dtype=f"<U{max(len(run), 1)}"),
        values=values.astype(np.float32),
    )  # fmt: skip
