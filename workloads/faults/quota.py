"""How tight a CPU quota must be to slow a rank by a wanted factor, corrected all the time.

Model of a paced step: segment i takes max(d_i, c_i / q), d_i the emulated device's time and c_i
the CPU time of its real arithmetic under a quota of q processors; the rest of the step is not
touched. Quotas bite in whole periods and on every thread of the process, so the model is wrong by
a gain, which is learnt from what the steps really take.
"""

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_SHARE = 0.01
MOST_SHARE = 1.0
SETTLING_STEPS = 1
WINDOWS = (3, 4, 6, 8)
"""Steps that are looked at before each correction; the last one repeats."""
DAMPING = (1.0, 0.8, 0.6, 0.4)
"""Share of the error that each correction mends: a window's mean is noisy itself."""


@dataclass(frozen=True, slots=True)
class StepModel:
    """Device and CPU seconds by segment, and the seconds of the rest of the step."""

    device: Sequence[float]
    cpu: Sequence[float]
    rest: float

    def seconds(self, share: float) -> float:
        """Own time of a step under a quota of `share` processors."""
        pairs = zip(self.device, self.cpu, strict=True)
        return self.rest + sum(max(device, cpu / share) for device, cpu in pairs)

    def share_for(self, seconds: float) -> float:
        """The quota under which a step takes `seconds`, by bisection on the logarithm."""
        low, high = LEAST_SHARE, MOST_SHARE
        for _ in range(60):
            middle = (low * high) ** 0.5
            if self.seconds(middle) > seconds:
                low = middle
            else:
                high = middle
        return high


def corrected(model: StepModel, share: float, wanted: float, measured: float) -> float:
    """The quota after a correction.

    Args:
        share: The quota in force while `measured` was taken.
        wanted: Own seconds a step should take.
        measured: Own seconds it took.
    """
    if measured <= model.seconds(MOST_SHARE) * 1.02:
        return max(LEAST_SHARE, share * 0.7)
    effective = model.share_for(measured)
    return min(MOST_SHARE, max(LEAST_SHARE, model.share_for(wanted) * share / effective))


class QuotaLoop:
    """Holds a step's own time at what is wanted, whose size may change from step to step."""

    def __init__(self, model: StepModel) -> None:
        self._model = model
        self._gain = 1.0
        self._settling = SETTLING_STEPS
        self._corrections = 0
        self._wanted: list[float] = []
        self._measured: list[float] = []

    def share(self, wanted: float) -> float:
        """The quota for a step that should take `wanted` own seconds."""
        share = self._model.share_for(wanted) * self._gain
        return min(MOST_SHARE, max(LEAST_SHARE, share))

    def pause(self) -> None:
        """The quota was lifted: the step after the next one settles again."""
        self._settling = SETTLING_STEPS

    def observe(self, wanted: float, measured: float) -> None:
        """Learn from a step that ended."""
        if self._settling:
            self._settling -= 1
            return
        self._wanted.append(wanted)
        self._measured.append(measured)
        place = min(self._corrections, len(WINDOWS) - 1)
        if len(self._measured) < WINDOWS[place]:
            return
        aim, seen = _mean(self._wanted), _mean(self._measured)
        share = self.share(aim)
        ratio = corrected(self._model, share, aim, seen) / share
        self._gain *= ratio ** DAMPING[place]
        self._corrections += 1
        self._wanted.clear()
        self._measured.clear()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
