"""How tight a CPU quota must be to slow a rank by a wanted factor.

Model of a paced step: segment i takes max(d_i, c_i / q), d_i the emulated device's time and c_i
the CPU time of its real arithmetic under a quota of q processors; the rest of the step is not
touched. Quotas bite in whole periods, so the model is corrected once from the measured effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_SHARE = 0.01
MOST_SHARE = 1.0


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
    """The quota after one correction.

    Args:
        share: The quota in force while `measured` was taken.
        wanted: Own seconds a step should take.
        measured: Own seconds it took.
    """
    if measured <= model.seconds(MOST_SHARE) * 1.02:
        return max(LEAST_SHARE, share * 0.7)
    effective = model.share_for(measured)
    return min(MOST_SHARE, max(LEAST_SHARE, model.share_for(wanted) * share / effective))
