"""How strong a fault is over the steps of a run, between 0 and 1."""

import numpy as np

from analyzer.run import FloatGrid
from analyzer.synth.fleet import Fault, Shape

RAMP_SHARE = 0.25
"""Of the fault's steps, until a ramp is at its full height."""


def strength(fault: Fault, steps: int) -> FloatGrid:
    """(S,) 0 outside the fault's steps."""
    stop = steps if fault.to_step is None else min(fault.to_step, steps)
    made = np.zeros(steps)
    if stop <= fault.from_step:
        return made
    made[fault.from_step : stop] = 1.0
    if fault.shape is Shape.RAMP:
        width = max(int(RAMP_SHARE * (stop - fault.from_step)), 1)
        made[fault.from_step : fault.from_step + width] = np.linspace(1 / width, 1.0, width)
    return made
