"""How far each GPU is from the GPUs that must behave alike, without a loop over GPUs.

Values are centred on each GPU's own past before they are compared: otherwise the peers' median
would move when some of them vanish, and all that stay would seem to have changed.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.stats.peer_groups import MAJORITY
from lockstep.collector.contract.robust import MAD_TO_SIGMA

FloatArray = NDArray[np.float32]

MANY = 64
"""In a larger stratum the median of all stands for that of the others: one value moves it by less
than a fortieth of the peers' spread."""


def to_scale(
    values: FloatArray, worse: NDArray[np.float32], ratio: NDArray[np.bool_]
) -> FloatArray:
    """(T, M, G) values on the scale they are compared on: more is worse, NaN = no value.

    Args:
        worse: (M,) 1 or -1.
        ratio: (M,) whether logarithms are taken; then what is not above 0 is no value.
    """
    # Four bytes tell seven digits, more than any sensor has; eight take twice as long.
    values = values.astype(np.float32, copy=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        if ratio.all():
            scaled = np.log(values)
        else:
            scaled = values.copy()
            scaled[:, ratio] = np.log(values[:, ratio])
    scaled *= worse[:, None]
    np.copyto(scaled, np.nan, where=~np.isfinite(scaled))
    return scaled


def residuals(
    values: FloatArray,
    offset: FloatArray,
    groups: Sequence[NDArray[np.intp]],
) -> FloatArray:
    """(T, M, G) value minus the leave-one-out median of the GPU's stratum; NaN = not judged.

    Nobody is judged where half or more of a stratum is silent, or under three answered: what is
    left might be the odd half.

    Args:
        values: (T, M, G) on the compared scale.
        offset: (M, G) what the GPU always was above its peers; subtracted before the comparison,
            and part of the result again.
        groups: From `peers.same_size`; all that should answer, those that never do included.
    """
    residual = np.full_like(values, np.nan)
    for columns in groups:
        # Where they are neighbours no array has to be gathered.
        first, count = int(columns[0, 0]), columns.size
        near = np.array_equal(columns.ravel(), np.arange(first, first + count))
        where = slice(first, first + count) if near else columns.ravel()
        always = offset[:, where].reshape(-1, *columns.shape)
        own = values[:, :, where].reshape(len(values), *always.shape) - always
        middle, answered = _others_median(own)
        own -= middle
        own[(answered < MAJORITY) | (2 * answered <= columns.shape[1])] = np.nan
        own += always
        residual[:, :, where] = own.reshape(*values.shape[:2], count)
    return residual


def _others_median(own: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """(T, M, S, n or 1) median of the others of the last axis, and (T, M, S) how many answered.

    Of the ordered values, an even number leaves one of the two middle ones; an odd number leaves
    the mean of two of the three around the middle. Which, tells the side that the own value is on.
    """
    answered = own.shape[-1] - np.isnan(own).sum(axis=-1)
    half = np.maximum(answered - 1, 0) // 2
    odd = answered % 2 == 1
    last = own.shape[-1] - 1
    # NaN last. Of many values only those around the middle need their places.
    needed = np.unique(np.clip([half, half + 1], 0, last))
    few = last < MANY or len(needed) > MANY
    ordered = np.sort(own, axis=-1) if few else np.partition(own, needed, axis=-1)

    def at(positions: NDArray[np.int64]) -> FloatArray:
        chosen = np.clip(positions, 0, last)[..., None]
        return np.asarray(np.take_along_axis(ordered, chosen, axis=-1)[..., 0])

    below, middle, above = at(half - 1), at(half), at(half + 1)
    if own.shape[-1] > MANY:
        return np.where(odd, middle, (middle + above) / 2)[..., None], answered
    if_lower = np.where(odd, (middle + above) / 2, above)[..., None]
    if_higher = np.where(odd, (below + middle) / 2, middle)[..., None]
    if_equal = np.where(odd, (below + above) / 2, above)[..., None]
    middle = middle[..., None]
    median = np.where(own > middle, if_higher, if_lower)
    np.copyto(median, np.broadcast_to(if_equal, median.shape), where=own == middle)
    return median, answered


def spread(offset: FloatArray, groups: Sequence[NDArray[np.intp]]) -> FloatArray:
    """(M, G) robust deviation of the constant offsets in each GPU's stratum; 0 without one."""
    deviation = np.zeros_like(offset)
    for columns in groups:
        own = offset[:, columns]
        deviation[:, columns] = MAD_TO_SIGMA * middle(np.abs(own - middle(own)))
    return deviation


def middle(own: FloatArray) -> FloatArray:
    """Median of the last axis, kept as an axis of 1; NaN where nothing is known."""
    ordered = np.sort(own, axis=-1)
    known = own.shape[-1] - np.isnan(own).sum(axis=-1, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum(known - 1, 0) // 2, axis=-1)
    high = np.take_along_axis(ordered, np.minimum(known // 2, own.shape[-1] - 1), axis=-1)
    return np.asarray((low + high) / 2)
