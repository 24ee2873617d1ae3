"""A fleet's telemetry as arrays: the only input of a pass."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.stats.significance import NATURAL_SPREAD
from lockstep.collector.contract.metrics import (
    GPU_CLOCK,
    GPU_POWER,
    GPU_TEMPERATURE,
    TRAIN_KNOWN_STEPS,
    TRAIN_OWN,
    TRAIN_STEPS,
)


@dataclass(frozen=True, slots=True)
class MonitoredMetric:
    """A metric of every GPU that is compared with the GPU's peers and with its own past.

    Attributes:
        name: `metric` or `metric{labels}`, labels as in contract.archive.SAMPLES.
        worse: 1 where more is worse, -1 where less is worse: the test is one-sided.
        ratio: Whether a change is a log ratio, or a difference in the metric's unit. The
            following three are in that scale.
        tolerance: The largest change that is none: drift of the machine and of its load.
        natural: The largest constant difference between healthy parts.
        floor: The noise of one sample is never taken as smaller.
        per: A counter; then the value is the increase of `name` per increase of `per`.
        known: A counter of what of `per` is in `name` (lockstep.analyzer.shapes.waits); None = all
            of it.
    """

    name: str
    worse: int
    ratio: bool
    tolerance: float
    natural: float
    floor: float
    per: str | None = None
    known: str | None = None


STEADY = math.log(1.01)
"""Findings are recorded from 1 to 2 % of a worker's own time (docs/method/peers.md)."""
QUIETEST = 0.005
"""Below the noise of recorded healthy runs: a 15 s mean of own time per step has 0.6 % against its
peers (median of 16 ranks)."""
OWN = MonitoredMetric(
    TRAIN_OWN.name, 1, True, STEADY, NATURAL_SPREAD, QUIETEST,
    per=TRAIN_STEPS.name, known=TRAIN_KNOWN_STEPS.name,
)  # fmt: skip
CLOCK = MonitoredMetric(GPU_CLOCK.series(domain="sm"), -1, True, STEADY, NATURAL_SPREAD, QUIETEST)
TEMPERATURE = MonitoredMetric(GPU_TEMPERATURE.series(sensor="gpu"), 1, False, 2.0, 15.0, 0.5)
"""Kelvin. A sensor tells whole degrees; places in a chassis differ by 10 to 15."""
POWER = MonitoredMetric(GPU_POWER.name, -1, True, math.log(1.05), math.log(1.22), 0.01)
"""Less than its peers at the same work: it is braked, or has less to do. Identical parts differ by
22 % at most (SC22, arXiv 2208.11035 v3)."""

MONITORED_METRICS: tuple[MonitoredMetric, ...] = (OWN, CLOCK, TEMPERATURE, POWER)


FloatArray = NDArray[np.float32]


class FleetError(ValueError):
    """Arrays do not belong together; the message says which, and what would be right."""


@dataclass(frozen=True, slots=True)
class TelemetryArrays:
    """Values of watched metrics of all GPUs that should answer.

    The GPUs are the last axis, because a GPU is compared with its neighbours along it.

    Attributes:
        times: (T,) unix seconds of the checks, rising, about evenly spaced.
        metrics: The M metrics.
        values: (T, M, G) as told, counters as rates already; NaN = did not answer.
        node, uuid: (G,) who each GPU is; a pair stands once.
        gpu: (G,) index on its node.
        stratum: (G,) name of the GPUs that must behave alike: same run, stage and
            tensor-parallel part, or same model without a run. "" = compared with nobody.

    Raises:
        FleetError: Sizes differ, times do not rise, or a GPU stands twice.
    """

    times: NDArray[np.float64]
    metrics: tuple[MonitoredMetric, ...]
    values: FloatArray
    node: NDArray[np.str_]
    uuid: NDArray[np.str_]
    gpu: NDArray[np.int64]
    stratum: NDArray[np.str_]

    def __post_init__(self) -> None:
        expected = len(self.times), len(self.metrics), len(self.node)
        if self.values.shape != expected:
            raise FleetError(f"values are {self.values.shape}; they must be {expected}")
        for name in ("uuid", "gpu", "stratum"):
            if getattr(self, name).shape != self.node.shape:
                raise FleetError(f"{name} is not of {len(self.node)} GPUs, as node is")
        if not (np.diff(self.times) > 0).all():
            raise FleetError("times do not rise; they must be the checks one after the other")
        if len(np.unique(keys(self.node, self.uuid))) < len(self.node):
            raise FleetError("a GPU stands twice; node and uuid must be a column's own")


def keys(node: NDArray[np.str_], uuid: NDArray[np.str_]) -> NDArray[np.str_]:
    """One word a GPU; neither a host name nor a uuid has a line break."""
    return np.char.add(np.char.add(node, "\n"), uuid)
