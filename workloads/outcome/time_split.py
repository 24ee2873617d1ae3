"""Where the time of training went, as MLBench divides it: compute, communication and the rest."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from lockstep.collector.contract.words import Phase

COMPUTE = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Seconds of one rank; they add up to its steps.

    Attributes:
        preprocess: Waiting for data.
        compute: Forward, backward and optimizer. What is communicated meanwhile is hidden here.
        communication: Waiting for gradients that the others have not sent yet; none where a rank
            trains alone.
        metrics: Evaluation on validation data.
        remainder: All else: checkpoints, garbage collection, what no phase covers.
    """

    preprocess: float = 0.0
    compute: float = 0.0
    communication: float = 0.0
    metrics: float = 0.0
    remainder: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of the steps."""
        return math.fsum(getattr(self, field.name) for field in fields(self))

    @property
    def training(self) -> float:
        """Seconds without evaluation: MLBench's training time."""
        return self.total - self.metrics

    def to_json(self) -> dict[str, float]:
        """As `<part>_seconds`."""
        return {f"{name}_seconds": round(value, 6) for name, value in asdict(self).items()}


def split(seconds: Mapping[str, float], workers: int) -> TimeSplit:
    """Divide what a rank's steps took.

    Args:
        seconds: By phase (words.PHASES), summed over steps; `other` is their remainder.
        workers: Replicas. One alone communicates with nobody: the microseconds of its grad_sync
            are no communication, but of the remainder.
    """
    left = dict(seconds)
    preprocess = left.pop(Phase.DATA, 0.0)
    compute = sum(left.pop(phase, 0.0) for phase in COMPUTE)
    metrics = left.pop(Phase.EVAL, 0.0)
    communication = left.pop(Phase.GRAD_SYNC, 0.0) if workers > 1 else 0.0
    return TimeSplit(preprocess, compute, communication, metrics, sum(left.values()))
