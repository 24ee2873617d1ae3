"""One value a GPU, by instant queries: what they cost grows with the GPUs, and not with time."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.read.prometheus.promql import series, window
from lockstep.analyzer.shapes.known import own_per_step
from lockstep.analyzer.shapes.labels import number, page_label, target_of
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import FleetMetric, FleetSnapshot
from lockstep.dashboard.sources.chart_table import FLEET_ROWS
from lockstep.dashboard.sources.prometheus.asking import Asking, Row
from lockstep.dashboard.sources.prometheus.directory import Directory, living_last
from lockstep.dashboard.trouble import Kind, TroubleError

OWN, MIDDLE = "lockstep:train_own_seconds:avg1m", "lockstep:train_own_seconds:med"
"""Recording rules (`lockstep rules`)."""
BY = "job, instance"
Place = tuple[str, int]
"""(node, GPU on it); of a rank without GPU (node, -1 - rank)."""


@dataclass(frozen=True, slots=True)
class Places:
    """Every place of the map, in its order.

    Attributes:
        order: Place -> its index.
        ranks, runs: (G,) who runs there.
        stages: (run, rank) -> pipeline stage.
        of_rank: (run, rank) -> index.
    """

    order: Mapping[Place, int]
    ranks: np.ndarray
    runs: np.ndarray
    stages: Mapping[tuple[str, int], str]
    of_rank: Mapping[tuple[str, int], int]


def places(asking: Asking, known: Directory, at: float) -> Places:
    """All GPUs that are told of, and ranks that have none; of several at one place who lives."""
    gpus = {
        (known.name(labels), gpu)
        for labels, _ in asking.instant(f"group by ({BY}, gpu) ({m.GPU_INFO.name})", at)
        if (gpu := number(labels, "gpu")) is not None
    }
    query = f"group by ({BY}, run, rank, gpu, pp, attempt) ({m.RANK_INFO.name})"
    ranks: dict[Place, tuple[str, int]] = {}
    stages: dict[tuple[str, int], str] = {}
    for labels, _ in living_last(asking, asking.instant(query, at), at):
        rank, gpu = number(labels, "rank"), number(labels, "gpu")
        if rank is not None:
            place = known.name(labels), -1 - rank if gpu is None else gpu
            ranks[place] = page_label(labels, "run"), rank
            stages[ranks[place]] = page_label(labels, "pp")
    position = {name: place for place, name in enumerate(known.nodes)}
    every = sorted(
        gpus | ranks.keys(),
        key=lambda one: (position.get(one[0], len(position)), one[0], abs(one[1])),
    )
    return Places(
        order={place: index for index, place in enumerate(every)},
        ranks=np.array([ranks.get(row, ("", -1))[1] for row in every], dtype=np.int32),
        runs=np.array([ranks.get(row, ("", -1))[0] for row in every], dtype=np.str_),
        stages=stages,
        of_rank={ranks[one]: index for index, one in enumerate(every) if one in ranks},
    )


def fleet(
    asking: Asking, known: Directory, all_places: Places, metric: FleetMetric, at: float,
    scrape: float, silent: tuple[str, ...],
) -> FleetSnapshot:  # fmt: skip
    """protocol.Source.fleet.

    Raises:
        TroubleError: Nobody tells of any GPU or rank.
    """
    if not all_places.order:
        raise TroubleError(
            Kind.EMPTY, f"{asking.url} has no GPU and no rank.",
            "Start a run, or let Prometheus scrape the collectors of nodes with GPUs.",
        )  # fmt: skip
    values = np.full(len(all_places.order), np.nan, dtype=np.float32)
    if metric.key in FLEET_ROWS:
        for row in FLEET_ROWS[metric.key]:
            query = f"sum by ({BY}, gpu) ({series(row.metric.name, **row.equal)})"
            _add(values, asking.instant(query, at), known, all_places)
    else:
        slow = metric.key == "slowdown"
        rows = _slowdown(asking, at, scrape, all_places) if slow else _wait(asking, at, scrape)
        for labels, value in rows:
            rank = number(labels, "rank")
            index = all_places.of_rank.get((labels.get("run", ""), -1 if rank is None else rank))
            if index is not None:
                values[index] = value
    return FleetSnapshot(
        metric=metric, at=at,
        nodes=np.array([node for node, _ in all_places.order], dtype=np.str_),
        gpus=np.array([max(-1, gpu) for _, gpu in all_places.order], dtype=np.int32),
        ranks=all_places.ranks, runs=all_places.runs, values=values, silent=silent,
    )  # fmt: skip


def _add(values: np.ndarray, rows: list[Row], known: Directory, where: Places) -> None:
    names = {target: known.node_of.get(target) for target in {target_of(one) for one, _ in rows}}
    for labels, value in rows:
        gpu = number(labels, "gpu")
        node = names[target_of(labels)] or known.name(labels)
        index = where.order.get((node, -1 if gpu is None else gpu))
        if index is not None:
            values[index] = value if np.isnan(values[index]) else values[index] + value


def _slowdown(asking: Asking, at: float, scrape: float, where: Places) -> list[Row]:
    """By the recording rules; else what `watch` tells of the slowest; else by the counters."""
    rows = asking.instant(f"{OWN} / on (run, pp, tp) group_left () ({MIDDLE} > 0)", at)
    rows = rows or asking.instant(m.RANK_STRAGGLER.name, at)
    if rows:
        return rows
    rate = window(60.0, scrape)
    rows = asking.instant(own_per_step(rate), at)
    own: dict[tuple[str, str], list[float]] = {}
    stage = [
        (one.get("run", ""), where.stages.get((one.get("run", ""), number(one, "rank") or 0), ""))
        for one, _ in rows
    ]
    for key, (_, value) in zip(stage, rows, strict=True):
        own.setdefault(key, []).append(value)
    middle = {key: float(np.median(values)) for key, values in own.items()}
    pairs = zip(rows, stage, strict=True)
    return [(labels, value / middle[key]) for (labels, value), key in pairs if middle[key] > 0]


def _wait(asking: Asking, at: float, scrape: float) -> list[Row]:
    rate = window(4 * scrape, scrape)
    waits = f"sum by (run, rank) (rate({m.TRAIN_COLLECTIVE.name}[{rate}]))"
    # Where not every collective was timed, their time is not known, either.
    return asking.instant(f"{waits} and on (run, rank) ({own_per_step(rate)})", at)
