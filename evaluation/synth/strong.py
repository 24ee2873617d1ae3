"""How strong each fault is at the moments of the scrapes, for the rank it is about."""

from collections.abc import Iterator

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import Fault, Shape, SyntheticFleet
from lockstep.evaluation.synth.scrapes import BEGIN, Scrapes
from lockstep.evaluation.synth.times import Times, ranks_of


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
