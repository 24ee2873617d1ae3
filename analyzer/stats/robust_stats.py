"""Means, medians, quantiles and deviations of the finite values."""

import math

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid as Floats
from lockstep.collector.contract.robust import MAD_TO_SIGMA

WITHIN = 1.96
"""Standard errors either side that hold 95 % of a Gaussian: of every interval that is reported."""
NOTHING = 1e-9
"""What is divided by is at least this, in whatever unit."""
MOSTLY, NEARLY_ALL = 0.6, 0.9
"""Shares that are most of something, chosen: clearly more than the half; and all, but for one in
ten that may not have been seen."""
BIWEIGHT_EFFICIENCY = 0.86
"""Of the biweight scale beside the deviation of Gaussians; that of the MAD is 0.37."""
BIWEIGHT_REACH = 9.0
"""MADs from which a value counts nothing (Mosteller and Tukey 1977)."""


def interval_95(effect: float, error: float) -> tuple[float, float, float]:
    """Of a log ratio with its standard error: the lower end, the ratio, the upper end (95 %)."""
    low, ratio, high = np.exp(effect + error * np.array([-WITHIN, 0.0, WITHIN])).tolist()
    return low, ratio, high


def shows(rise: float, shown: float) -> bool:
    """Whether one observation has the rise that another shows: it is nearer to that than to none.

    Of the two, with the same error, it is the likelier.
    """
    return bool(2 * rise >= shown)


def mean(values: Floats, axis: int | tuple[int, ...]) -> Floats:
    """The mean of what is there along an axis; NaN where nothing is."""
    there = np.isfinite(values)
    count = there.sum(axis=axis)
    total = np.where(there, values, 0.0).sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def median(values: Floats, axis: int | tuple[int, ...], *, keepdims: bool = False) -> Floats:
    """The median of what is there along axes; NaN where nothing is."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    moved = np.moveaxis(values, axes, range(-len(axes), 0))
    moved = moved.reshape(*moved.shape[: -len(axes)], math.prod(moved.shape[-len(axes) :]))
    there = np.isfinite(moved)
    size = moved.shape[-1]
    if size and there.all():
        # Most of a verdict's time was numpy's own median, of many small arrays.
        ordered = np.partition(moved, (size - 1) // 2 if size % 2 else [size // 2 - 1, size // 2])
        found: Floats = (ordered[..., (size - 1) // 2] + ordered[..., size // 2]) / 2
    elif size:
        ordered = np.sort(np.where(there, moved, np.nan), axis=-1)
        count = there.sum(axis=-1, keepdims=True)
        low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=-1)
        high = np.take_along_axis(ordered, np.minimum(count // 2, size - 1), axis=-1)
        found = np.where(count > 0, (low + high) / 2, np.nan)[..., 0]
    else:
        found = np.full(moved.shape[:-1], np.nan)
    return np.expand_dims(found, axes) if keepdims else found


def mean_of(values: Floats) -> float:
    """The mean of all that is there; NaN if nothing is."""
    there = values[np.isfinite(values)]
    return float(there.mean()) if there.size else float("nan")


def median_of(values: Floats) -> float:
    """The median of all that is there; NaN if nothing is."""
    there = np.sort(values[np.isfinite(values)].astype(float), axis=None)
    size = there.size
    return float(there[(size - 1) // 2] + there[size // 2]) / 2 if size else float("nan")


def quantiles_of(values: Floats, *shares: float) -> tuple[float, ...]:
    """Quantiles of (n,) values, which all are there, as of numpy.quantile; NaN without any.

    As `median_of` for the many small arrays of a verdict: numpy's own take ten times as long.
    """
    if not values.size:
        return (float("nan"),) * len(shares)
    ordered, last = np.sort(values), len(values) - 1
    found = []
    for share in shares:
        place = share * last
        low = int(place)
        near, far = float(ordered[low]), float(ordered[min(low + 1, last)])
        part = place - low
        # From the nearer of the two, as numpy does: the same to the last bit.
        found.append(near + (far - near) * part if part < 0.5 else far - (far - near) * (1 - part))
    return tuple(found)


def spread(values: Floats, axis: int | tuple[int, ...] = -1) -> Floats:
    """The robust deviation along an axis: MAD, as a Gaussian's sigma."""
    away = np.abs(values - median(values, axis, keepdims=True))
    return MAD_TO_SIGMA * median(away, axis)


def biweight(values: Floats) -> float:
    """The deviation of (n,) values from 0 that outliers do not move: the biweight scale.

    The square root of the biweight midvariance (Mosteller and Tukey 1977, chapter 10).
    """
    mad = median_of(np.abs(values)) if values.size else 0.0
    if mad <= 0:
        return 0.0
    away = (values / (BIWEIGHT_REACH * mad)) ** 2
    near = away < 1
    square, weight = values[near] ** 2, 1 - away[near]
    below = float(np.sum(weight * (1 - 5 * away[near])))
    return float(np.sqrt(values.size * np.sum(square * weight**4)) / abs(below))
