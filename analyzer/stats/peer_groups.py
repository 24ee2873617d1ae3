"""Which ranks must behave alike (docs/method/peers.md)."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

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
    """The GPU model by rank, as all drivers spell it; one for all where nobody told."""
    known = Counter(model_name(info.model) for info in grid.ranks if info.model)
    usual = known.most_common(1)[0][0] if known else ""
    return {info.rank: model_name(info.model) or usual for info in grid.ranks}


def model_name(told: str) -> str:
    """A GPU model without its maker, whom drivers name before it since R470, or not."""
    return told.removeprefix("NVIDIA ").removeprefix("Tesla ").strip()
