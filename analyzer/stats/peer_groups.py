"""Peer groups: ranks that must behave alike (docs/method/peers.md); medians over others."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.operations import Flags, Floats
from lockstep.analyzer.shapes.run import Grid, RankInfo

Key = TypeVar("Key", bound=Hashable)
Stage = TypeVar("Stage", bound=Hashable)
Place = tuple[int, int | None, str, int]

MAJORITY = 3
"""Fewer ranks have no middle to stand out from."""


def columns_by(grid: Grid, key: Callable[[RankInfo], Key]) -> dict[Key, NDArray[np.int64]]:
    """The columns of the ranks that have the same key, in the order in which keys come."""
    found: dict[Key, list[int]] = {}
    for column, info in enumerate(grid.ranks):
        found.setdefault(key(info), []).append(column)
    return {one: np.array(columns, dtype=np.int64) for one, columns in found.items()}


def same_work(
    places: Sequence[tuple[Stage, int]], counted: NDArray[np.bool_]
) -> dict[tuple[Stage, int | None], NDArray[np.int64]]:
    """(stage, tensor-parallel part) -> columns of the ranks that must behave alike.

    Where under MAJORITY ranks hold a part of a stage, all parts of that stage stand together, as
    (stage, None): Megatron gives them equal parts of every layer.

    Args:
        places: Of each rank its stage, with whatever else peers must have in common, and its part.
        counted: (R,) who counts.
    """
    parts: dict[tuple[Stage, int | None], list[int]] = {}
    stages: dict[tuple[Stage, int | None], list[int]] = {}
    for column, (stage, part) in enumerate(places):
        parts.setdefault((stage, part), []).append(column)
        stages.setdefault((stage, None), []).append(column)
    narrow, wide = (
        {place: mine for place, every in groups.items() if len(mine := _columns(every, counted))}
        for groups in (parts, stages)
    )
    small = {stage for (stage, _), mine in narrow.items() if len(mine) < MAJORITY}
    found = {place: columns for place, columns in narrow.items() if place[0] not in small}
    return found | {place: columns for place, columns in wide.items() if place[0] in small}


def _columns(every: list[int], counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    columns = np.array(every, dtype=np.int64)
    return columns[counted[columns]]


def peer_groups(grid: Grid) -> Mapping[Place, NDArray[np.int64]]:
    """(pp, tp, GPU model, role) -> columns of the ranks with steps, as `same_work` groups them.

    GPUs of another model take another time for the same work; of those whose model is not known it
    is that of most.
    """
    told = np.asarray(np.isfinite(grid.time["own"]).any(axis=0))
    models = _models(grid)
    places = [((info.pp, models[info.rank], info.role), info.tp) for info in grid.ranks]
    return {
        (pp, part, model, role): columns
        for ((pp, model, role), part), columns in same_work(places, told).items()
    }


def _models(grid: Grid) -> dict[int, str]:
    """The GPU model by rank, as all drivers spell it; one for all where nobody reported."""
    known = Counter(model_name(info.model) for info in grid.ranks if info.model)
    usual = known.most_common(1)[0][0] if known else ""
    return {info.rank: model_name(info.model) or usual for info in grid.ranks}


def model_name(model: str) -> str:
    """A GPU model without its maker, whom drivers name before it since R470, or not."""
    return model.removeprefix("NVIDIA ").removeprefix("Tesla ").strip()


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
