"""Whether it was this worker that changed, where it has too few peers to tell."""

import numpy as np

from analyzer.operations import Flags, Floats
from analyzer.slowness.changepoint import MEDIAN_EFFICIENCY
from analyzer.trace_outliers.residuals import Series
from collector.contract.robust import MAD_TO_SIGMA

OWN_SHARE = 0.6
"""Of a change between two replicas this share must lie in the suspect's own past; with one replica
the other stages may hold no more than the rest of it."""
SURE = 2.0
"""Standard errors by which the others of three stages or more must have changed to acquit one."""


def changed_itself(way: Series, stage: int, dp: int, within: Flags, excess: float) -> bool:
    """Whether a worker's excess beside its peers is a change of its own; True with many peers.

    Of two, the other may have become faster. With one replica, a change that the other stages share
    is of the run. A stage of three or more that becomes faster lifts the others by less than it
    falls, so that there only a sure change of the others speaks against it.

    Args:
        way: The comparison.
        stage: The worker's.
        dp: Its replica.
        within: (S,) when it is high.
        excess: Log of how much, beside the rest of the steps.
    """
    stages, replicas = way.peers.shape[:2]
    if replicas > 2:
        return True
    change, error = _change(way.own[stage, dp], within)
    if replicas == 2:
        return change >= OWN_SHARE * excess
    most = (2 - OWN_SHARE) * excess
    if stages == 2:
        return OWN_SHARE * excess <= change <= most
    if max(-_change(other, within)[0] for other in way.peers[:, 0]) > most:
        return False
    return abs(change - excess) <= (1 - OWN_SHARE) * excess + SURE * error


def _change(series: Floats, within: Flags) -> tuple[float, float]:
    """Change of a series between some steps and the rest, and its standard error."""
    there = np.isfinite(series)
    inside, outside = series[within & there], series[~within & there]
    if not inside.size or not outside.size:
        return 0.0, 0.0
    middles = float(np.median(inside)), float(np.median(outside))
    rest = np.concatenate([inside - middles[0], outside - middles[1]])
    deviation = MAD_TO_SIGMA * float(np.median(np.abs(rest)))
    error = MEDIAN_EFFICIENCY * deviation * float(np.sqrt(1 / inside.size + 1 / outside.size))
    return middles[0] - middles[1], error
