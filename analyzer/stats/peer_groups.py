"""Which ranks must behave alike (docs/method/peers.md)."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import Grid, RankInfo

Key = TypeVar("Key", bound=Hashable)
Place = tuple[int, int | None, str, int]

MAJORITY = 3
"""Fewer ranks have no middle to stand out from."""


def columns_by(grid: Grid, key: Callable[[RankInfo], Key]) -> dict[Key, NDArray[np.int64]]:
    """The columns of the ranks that have the same key, in the order in which keys come."""
    found: dict[Key, list[int]] = {}
    for column, info in enumerate(grid.ranks):
        found.setdefault(key(info), []).append(column)
    return {one: np.array(columns, dtype=np.int64) for one, columns in found.items()}


def peer_groups(grid: Grid) -> Mapping[Place, NDArray[np.int64]]:
    """(pp, tp, GPU model, role) -> columns of the ranks with steps.

    Where that is under three ranks, the tensor-parallel ranks of a stage stand together, as
    (pp, None, model, role): Megatron gives them equal parts of every layer. GPUs of another model
    take another time for the same work; of those of whom nobody told the model is that of most.
    """
    told = np.asarray(np.isfinite(grid.time["own"]).any(axis=0))
    models = _models(grid)
    parts: dict[Place, NDArray[np.int64]] = columns_by(
        grid, lambda info: (info.pp, info.tp, models[info.rank], info.role)
    )
    stages: dict[Place, NDArray[np.int64]] = columns_by(
        grid, lambda info: (info.pp, None, models[info.rank], info.role)
    )
    narrow, wide = (
        {place: mine for place, every in groups.items() if len(mine := every[told[every]])}
        for groups in (parts, stages)
    )
    small = {(pp, *rest) for (pp, _, *rest), mine in narrow.items() if len(mine) < MAJORITY}
    found = {
        place: columns for place, columns in narrow.items() if (place[0], *place[2:]) not in small
    }
    return found | {
        place: columns for place, columns in wide.items() if (place[0], *place[2:]) in small
    }


def _models(grid: Grid) -> dict[int, str]:
    """The GPU model by rank, as all drivers spell it; one for all where nobody told."""
    known = Counter(model_name(info.model) for info in grid.ranks if info.model)
    usual = known.most_common(1)[0][0] if known else ""
    return {info.rank: model_name(info.model) or usual for info in grid.ranks}


def model_name(told: str) -> str:
    """A GPU model without its maker, whom drivers name before it since R470, or not."""
    return told.removeprefix("NVIDIA ").removeprefix("Tesla ").strip()
