"""The middle of all others: a leave-one-out median for every cell at once."""

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.operations import Flags, Floats


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


def other_parts_median(values: Floats, part: NDArray[np.int64]) -> Floats:
    """For each cell of (W, n), the median of its row's cells of other parts; NaN without any.

    One sort serves all parts: without k cells the middle moves by k places at most.

    Args:
        values: NaN = not there.
        part: (n,) number of the part of each column.
    """
    width = len(part)
    there = np.isfinite(values)
    order = np.argsort(np.where(there, values, np.inf), axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    # One place more, behind all others: of a cell that is not there, and of parts with fewer cells.
    place = np.full((len(values), width + 1), width)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(width), order.shape), axis=1)
    place[:, :width][~there] = width
    _, number, size = np.unique(part, return_inverse=True, return_counts=True)
    members = np.full((len(size), size.max(initial=0)), width)
    behind = np.concatenate([np.arange(count) for count in size])
    members[np.repeat(np.arange(len(size)), size), behind] = np.argsort(number, kind="stable")
    gone = np.sort(place[:, members], axis=2)
    others = there.sum(axis=1)[:, None] - (gone < width).sum(axis=2)
    middle = np.zeros(others.shape)
    for at in (others - 1) // 2, others // 2:
        for left_out in np.moveaxis(gone, 2, 0):
            at = at + (at >= left_out)
        middle += np.take_along_axis(ordered, np.clip(at, 0, width - 1), axis=1) / 2
    middle[others == 0] = np.nan
    return middle[:, number]
