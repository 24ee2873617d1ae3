"""One value a GPU, by instant queries: what they cost grows with the GPUs, and not with time."""

import numpy as np
from collections.abc import Mapping
from dataclasses import dataclass
from lockstep.analyzer.read.prometheus.promql import series
from lockstep.analyzer.read.prometheus.promql import window
from lockstep.analyzer.read.prometheus.questions import own_per_step
from lockstep.analyzer.read.prometheus.questions import waiting_per_second
from lockstep.analyzer.shapes.labels import number
from lockstep.analyzer.shapes.labels import page_label
from lockstep.analyzer.shapes.labels import target_of
from lockstep.analyzer.stragglers.peers import group_numbers
from lockstep.analyzer.stragglers.peers import over_peers
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import FleetMetric
from lockstep.dashboard.shapes import FleetSnapshot
from lockstep.dashboard.sources.chart_table import FLEET_ROWS
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.asking import Row
from lockstep.dashboard.sources.prometheus.directory import Directory
from lockstep.dashboard.sources.prometheus.directory import living_last
from lockstep.dashboard.trouble import Kind
from lockstep.dashboard.trouble import TroubleError



OWN = "lockstep:train_own_seconds:avg1m"
"""A recording rule (`lockstep rules`)."""
BY = "job, instance"
Place = tuple[str, int]
"""(node, GPU on it); of a rank without GPU (node, -1 - rank)."""
Work = tuple[tuple[str, str], int]
"""What peers have in common: (run, stage), and the part of it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Every place of the map, in its order.

    Attributes:
        order: Place -> its index.
        ranks, runs: (G,) who runs there.
        work: (run, rank) -> run and pipeline stage, and tensor-parallel part.
        of_rank: (run, rank) -> index.
    """

    order: Mapping[Place, int]
    ranks: np.ndarray
    runs: np.ndarray
    work: Mapping[tuple[str, int], Work]
    of_rank: Mapping[tuple[str, int], int]


def places(asking: Asking, known: Directory, at: float) -> Places:
    """All GPUs that are told of, and ranks that have none; of several at one place who lives."""
    gpus = {
        (known.name(labels), gpu)
        for labels, _ in asking.instant(f"group by ({BY}, gpu) ({m.GPU_INFO.name})", at)
        if (gpu := number(labels, "gpu")) is not None
    }
    query = f"group by ({BY}, run, rank, gpu, pp, tp, attempt) ({m.RANK_INFO.name})"
    ranks: dict[Place, tuple[str, int]] = {}
    work: dict[tuple[str, int], Work] = {}
    for labels, _ in living_last(asking, asking.instant(query, at), at):
        rank, gpu = number(labels, "rank"), number(labels, "gpu")
        if rank is not None:
            place = known.name(labels), -1 - rank if gpu is None else gpu
            run = page_label(labels, "run")
            ranks[place] = run, rank
            work[run, rank] = (run, page_label(labels, "pp")), number(labels, "tp") or 0
    position = {name: place for place, name in enumerate(known.nodes)}
    every = sorted(
        gpus | ranks.keys(),
        key=lambda one: (position.get(one[0], len(position)), one[0], abs(one[1])),
    )
    return Places(
        order={place: index for index, place in enumerate(every)},
        ranks=np.array([ranks.get(row, ("", -1))[1] for row in every], dtype=np.int32),
        runs=np.array([ranks.get(row, ("", -1))[0] for row in every], dtype=np.str_),
        work=work,
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
    """Over peers, by the recorded own time; else as `watch` exports it; else by the counters."""
    rows = asking.instant(OWN, at)
    if not rows and (exported := asking.instant(m.RANK_STRAGGLER.name, at)):
        return exported
    rows = rows or asking.instant(own_per_step(window(60.0, scrape)), at)
    own = np.array([value for _, value in rows], dtype=np.float64)
    work = []
    for labels, _ in rows:
        run = labels.get("run", "")
        work.append(where.work.get((run, number(labels, "rank") or 0), ((run, ""), 0)))
    ratios = over_peers(own, group_numbers(work, np.isfinite(own)))
    return [
        (labels, float(ratio))
        for (labels, _), ratio in zip(rows, ratios, strict=True)
        if np.isfinite(ratio)
    ]


def _wait(asking: Asking, at: float, scrape: float) -> list[Row]:
    rate = window(4 * scrape, scrape)
    waits = waiting_per_second(rate)
    # Where not every collective was timed, their time is not known, either.
    return asking.instant(f"{waits} and on (run, rank) ({own_per_step(rate)})", at)
