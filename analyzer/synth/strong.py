"""How strong each fault is at the moments of the scrapes, for the rank it is about."""

from collections.abc import Iterator

import numpy as np

from analyzer.run import FloatGrid
from analyzer.synth.fleet import STOPS, Fault, SyntheticFleet
from analyzer.synth.scrapes import Scrapes
from analyzer.synth.times import Times, ranks_of
from collector.contract.words import Cause


def active(
    fleet: SyntheticFleet, times: Times, seen: Scrapes, *causes: Cause
) -> Iterator[tuple[Fault, int, FloatGrid]]:
    """(fault, rank, (T,) strength) of every rank with a fault of one of the causes."""
    for fault, strong in zip(fleet.faults, times.strengths, strict=True):
        if fault.cause not in causes or fault.cause in STOPS:
            continue
        for rank in ranks_of(fault):
            step = seen.rank_step[:, rank]
            yield fault, rank, np.where(seen.stopped[:, rank], 0.0, strong[step])


def onset(fault: Fault, seen: Scrapes) -> float:
    """Unix seconds of the begin of its first step."""
    return float(seen.end[fault.from_step - 1]) if fault.from_step else float("-inf")
