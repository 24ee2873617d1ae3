"""Scrapes of collectors, the steps at these moments, and series over the whole fleet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import (
    GPUS_PER_NODE,
    Defect,
    Difficulty,
    Fault,
    Shape,
    SyntheticFleet,
)
from lockstep.evaluation.synth.times import Times, ranks_of
from lockstep.evaluation.synth.untidy import lateness

BEGIN = 1.8e9
"""Unix seconds of the first step; a whole number that no recorded run has."""
STILL_SECONDS = 240.0
"""How long a run that stopped is still scraped."""
JITTER_SECONDS = 0.05
LATEST = 0.8
"""Of an interval, by which jitter makes a scrape late at most."""
LATE_SHARE, LATE_SECONDS = 0.1, 8.0
"""Of scrapes that come late, where that is the defect, and by how much at most."""


@dataclass(frozen=True, slots=True)
class Scrapes:
    """Moments.

    Attributes:
        time: (T, N) unix seconds, of each node.
        done: (T, N) steps completed by then.
        end: (S,) unix seconds of the end of each step.
        node_of: (R,) node of each rank.
    """

    time: FloatGrid
    done: NDArray[np.int64]
    end: FloatGrid
    node_of: NDArray[np.int64]

    @property
    def rank_time(self) -> FloatGrid:
        """(T, R) unix seconds."""
        return self.time[:, self.node_of]

    @property
    def rank_done(self) -> NDArray[np.int64]:
        """(T, R) steps completed."""
        return self.done[:, self.node_of]

    @property
    def rank_step(self) -> NDArray[np.int64]:
        """(T, R) the step under way; the last one where the run stopped."""
        return np.minimum(self.rank_done, len(self.end) - 1)

    @property
    def stopped(self) -> NDArray[np.bool_]:
        """(T, R) whether all steps are through."""
        return self.rank_done >= len(self.end)

    def since(self, columns: FloatGrid) -> FloatGrid:
        """(T, columns) seconds since the scrape before; the first has one usual interval."""
        gaps = np.diff(columns, axis=0)
        first = np.full((1, columns.shape[1]), np.median(gaps) if gaps.size else 0.0)
        return np.concatenate([first, gaps])


def scrapes(fleet: SyntheticFleet, times: Times, dice: np.random.Generator) -> Scrapes:
    """Every node at its own offset, as Prometheus spreads its targets."""
    end = BEGIN + np.cumsum(times.wall)
    stops = any(fault.stops for fault in fleet.faults)
    until = end[-1] + (STILL_SECONDS if stops else 0.0)
    count = max(int((until - BEGIN) / fleet.scrape_seconds), 2)
    offset = dice.uniform(0.0, fleet.scrape_seconds, fleet.nodes)
    time = BEGIN + offset + fleet.scrape_seconds * np.arange(count)[:, None]
    time = time + np.abs(JITTER_SECONDS * dice.standard_normal(time.shape))
    late_by = np.minimum(lateness(fleet, time.shape), LATEST * fleet.scrape_seconds)
    time = time + late_by
    if Defect.LATE in fleet.defects:
        late = dice.random(time.shape) < LATE_SHARE
        time = time + np.where(late, dice.uniform(1.0, LATE_SECONDS, time.shape), 0.0)
    if fleet.has(Difficulty.SCRAPES):
        time = np.maximum.accumulate(time, axis=0)  # one that is late keeps the next one waiting
        time = time + 1e-3 * np.arange(count)[:, None]
    done = np.searchsorted(end, time, side="right")
    return Scrapes(time, done, end, np.arange(fleet.world) // GPUS_PER_NODE)


# The strength of each fault at the scrapes, for the rank that has it.


def active(
    fleet: SyntheticFleet, times: Times, seen: Scrapes, *causes: Cause
) -> Iterator[tuple[Fault, int, FloatGrid]]:
    """(fault, rank, (T,) strength) of every rank with a fault, or a decoy, of one of the causes."""
    for fault, strong in zip((*fleet.faults, *fleet.decoys), times.strengths, strict=True):
        if fault.cause not in causes or fault.stops:
            continue
        for rank in ranks_of(fault):
            step = seen.rank_step[:, rank]
            yield fault, rank, np.where(seen.stopped[:, rank], 0.0, strong[step])


def counted(
    fleet: SyntheticFleet, times: Times, seen: Scrapes, *causes: Cause
) -> Iterator[FloatGrid]:
    """(T,) how strongly counters rise by each of `active`: later, slower and less than it is."""
    strengths = dict(zip(map(id, (*fleet.faults, *fleet.decoys)), times.strengths, strict=True))
    for fault, rank, strong in active(fleet, times, seen, *causes):
        if fault.lag_seconds or fault.ramp_seconds:
            moment = seen.rank_time[:, rank] - fault.lag_seconds
            step = np.minimum(np.searchsorted(seen.end, moment, side="right"), len(seen.end) - 1)
            risen = (moment - onset(fault, seen)) / max(fault.ramp_seconds, 1.0)
            strong = np.where(seen.stopped[:, rank], 0.0, strengths[id(fault)][step])
            strong = strong * np.clip(risen, 0.0, 1.0)
        elif fault.shape in (Shape.BURSTS, Shape.PERIODIC):
            strong = _mean_between(seen, rank, strengths[id(fault)])
        yield fault.faint * strong


def _mean_between(seen: Scrapes, rank: int, strength: FloatGrid) -> FloatGrid:
    """(T,) over the time since the scrape before: a counter counts what no scrape hits."""
    edges = np.concatenate([[BEGIN], seen.end])
    summed = np.concatenate([[0.0], np.cumsum(strength * np.diff(edges))])
    time = seen.rank_time[:, rank]
    since = seen.since(time[:, None])[:, 0]
    risen: FloatGrid = np.diff(
        np.interp(np.concatenate([[time[0] - since[0]], time]), edges, summed)
    )
    return risen / np.maximum(since, 1e-9)


def onset(fault: Fault, seen: Scrapes) -> float:
    """Unix seconds of the begin of its first step."""
    return float(seen.end[fault.from_step - 1]) if fault.from_step else float("-inf")


# Series of one metric over the whole fleet become the frame of samples.


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

    def spread(values: Sequence[object]) -> NDArray[np.object_]:
        return np.repeat(np.array(values, dtype=object), counts)

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
