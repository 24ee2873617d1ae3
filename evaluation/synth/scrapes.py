"""When collectors are scraped, and which step the run is in at these moments."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.evaluation.synth.difficulty import Difficulty
from lockstep.evaluation.synth.fleet import GPUS_PER_NODE, Defect, SyntheticFleet
from lockstep.evaluation.synth.times import Times
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
