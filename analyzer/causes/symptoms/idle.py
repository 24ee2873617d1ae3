"""When a GPU that tells it is busy cannot draw what it tells: shared by all who doubt telemetry."""

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid

BUSY = 0.8
"""Share of time with a kernel running, from which a GPU's mean power is that of one at work.

An idle GPU draws about a tenth of its power limit and a kernel at least a third, even one that only
waits (see IDLE), so that this share draws 0.8 / 3 + 0.2 / 10 = 0.29 of the limit, well above IDLE.
At a half it would be 0.22: light work on a healthy GPU would be called a contradiction. At 0.95 a
GPU that tells 90 % at idle power would be believed.
"""
IDLE = 0.2
"""Share of its power limit that an idle GPU stays under: 50 to 75 W of 300 to 700 W in data sheets
and `nvidia-smi`, 64 of 700 W in the example of NVIDIA's DGX B200 user guide (power capping); a
kernel that only waits (NCCL's spin) draws a third and more."""
PEERS_DRAW = 2.0
"""Times as much, at least: where all draw little, the work is light. Chosen, less than the three
times that a kernel draws of what an idle GPU does (see BUSY)."""


def idle_at_work(
    used: FloatGrid | float, drawn: FloatGrid | float, limit: FloatGrid | float,
    peers: FloatGrid | float,
) -> NDArray[np.bool_]:  # fmt: skip
    """Whether kernels run nearly always at the power of an idle GPU; NaN = nobody tells.

    Args:
        used: Share of the time with a kernel running.
        drawn: Watts.
        limit: Watts; of a GPU that tells none the peers alone say what idle is.
        peers: Watts that the peers draw.
    """
    told = (np.isfinite(limit) | np.isfinite(peers)) & np.isfinite(drawn)
    idle = np.logical_not(drawn > np.multiply(IDLE, limit))
    below = np.logical_not(np.multiply(PEERS_DRAW, drawn) > peers)
    contradicts: NDArray[np.bool_] = np.asarray(told & (used >= BUSY) & idle & below)
    return contradicts
