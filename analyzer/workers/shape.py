"""How an excess goes in time: constant, transient, periodic or a ramp."""

from enum import StrEnum

import numpy as np

from analyzer.operations import Floats

RAMP_SHARE = 0.5
"""A ramp rises by this share of its last level inside its span."""
RAMP_STEPS = 8
RAMP_TURN = 0.25
"""Each third of a ramp rises by this share of the whole rise at least; a jump rises in one."""
SMOOTH = 3


class Shape(StrEnum):
    """The words of the fault plan."""

    CONSTANT = "constant"
    TRANSIENT = "transient"
    PERIODIC = "periodic"
    RAMP = "ramp"


def rises(values: Floats) -> bool:
    """Whether a series climbs all the way."""
    if len(values) < RAMP_STEPS or not np.isfinite(values).all():
        return False
    marks = [float(np.median(part)) for part in np.array_split(values, 4)]
    rise = marks[-1] - marks[0]
    return rise >= RAMP_SHARE * marks[-1] and bool((np.diff(marks) >= RAMP_TURN / 2 * rise).all())


def smooth(values: Floats) -> Floats:
    """Running median of SMOOTH steps; the ends stay."""
    if len(values) < SMOOTH:
        return values
    inner = np.median(np.lib.stride_tricks.sliding_window_view(values, SMOOTH), axis=1)
    return np.concatenate([values[:1], inner, values[-1:]])


def onset(values: Floats, least: float) -> int:
    """The first step from which a rising series stays above `least`."""
    below = np.flatnonzero(smooth(values) < least)
    return int(below[-1]) + 1 if below.size else 0
