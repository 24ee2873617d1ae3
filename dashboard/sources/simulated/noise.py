"""Numbers that look random and follow from what they are asked for: who looks twice sees the same.

The finalizer is the one of MurmurHash3 (Appleby, public domain, fmix32).
"""

import numpy as np
from numpy.typing import NDArray

from lockstep.dashboard.shapes import Floats


def noise(index: NDArray[np.integer], salt: int) -> Floats:
    """(N,) from -1 to 1, evenly."""
    with np.errstate(over="ignore"):
        bits = (np.asarray(index).astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)
        bits = bits * np.uint32(2654435761) + np.uint32(salt & 0xFFFFFFFF)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            bits ^= bits >> np.uint32(shift)
            bits *= np.uint32(factor)
        bits ^= bits >> np.uint32(16)
    spread: Floats = bits.astype(np.float64) / 0x7FFFFFFF - 1.0
    return spread
