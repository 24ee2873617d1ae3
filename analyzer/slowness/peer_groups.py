"""Which ranks must behave alike (docs/method/peers.md)."""

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Grid, RankInfo

Key = TypeVar("Key", bound=Hashable)
Place = tuple[int, int | None]

MAJORITY = 3
"""Fewer ranks have no middle to stand out from."""


def columns_by(grid: Grid, key: Callable[[RankInfo], Key]) -> dict[Key, NDArray[np.int64]]:
    """The columns of the ranks that have the same key, in the order in which keys come."""
    found: dict[Key, list[int]] = {}
    for column, info in enumerate(grid.ranks):
        found.setdefault(key(info), []).append(column)
    return {one: np.array(columns, dtype=np.int64) for one, columns in found.items()}


def peer_groups(grid: Grid) -> Mapping[Place, NDArray[np.int64]]:
    """(pp, tp) -> columns of the ranks with steps.

    Where that is under three ranks, the tensor-parallel ranks of a stage stand together, as
    (pp, None): Megatron gives them equal parts of every layer.
    """
    told = np.asarray(np.isfinite(grid.time["own"]).any(axis=0))
    parts: dict[Place, NDArray[np.int64]] = columns_by(grid, lambda info: (info.pp, info.tp))
    stages: dict[Place, NDArray[np.int64]] = columns_by(grid, lambda info: (info.pp, None))
    narrow, wide = (
        {place: mine for place, every in groups.items() if len(mine := every[told[every]])}
        for groups in (parts, stages)
    )
    small = {pp for (pp, _), columns in narrow.items() if len(columns) < MAJORITY}
    found = {place: columns for place, columns in narrow.items() if place[0] not in small}
    return found | {place: columns for place, columns in wide.items() if place[0] in small}
