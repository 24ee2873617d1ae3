"""A fleet's telemetry as arrays: the only input of a pass."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.metrics import MonitoredMetric

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
