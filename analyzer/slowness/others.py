"""The middle of all others: a leave-one-out median for every cell at once."""

import numpy as np

from analyzer.operations import Flags, Floats


def others_median(values: Floats, axis: int, trusted: Flags | None = None) -> Floats:
    """For each cell, the median over the other cells along an axis; NaN where there are none.

    One sort serves all cells: without the cell of place r, the middle of the others moves by one
    place at most.

    Args:
        values: Any shape; NaN = not there.
        axis: Of the cells that are compared.
        trusted: Broadcasts to `values`; the others are left out of every median. None = all.
    """
    moved = np.moveaxis(values, axis, -1)
    there = np.isfinite(moved)
    if trusted is not None:
        there = there & np.moveaxis(np.broadcast_to(trusted, values.shape), axis, -1)
    order = np.argsort(np.where(there, moved, np.inf), axis=-1, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(
        place, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), axis=-1
    )
    ordered = np.take_along_axis(moved, order, axis=-1)
    count = there.sum(axis=-1, keepdims=True)
    others = count - there
    # A cell that does not count itself has nothing to step over.
    place = np.where(there, place, order.shape[-1])
    middle = np.zeros(moved.shape)
    for half in (others - 1) // 2, others // 2:
        at = np.clip(half + (half >= place), 0, order.shape[-1] - 1)
        middle += np.take_along_axis(ordered, at, axis=-1) / 2
    middle[others == 0] = np.nan
    return np.moveaxis(middle, -1, axis)
