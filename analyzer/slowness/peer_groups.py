"""Which ranks must behave alike (docs/method/peers.md)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Grid

MAJORITY = 3
"""Fewer ranks have no middle to stand out from."""


def peer_groups(grid: Grid) -> Mapping[tuple[int, int | None], NDArray[np.int64]]:
    """(pp, tp) -> columns of the ranks with steps.

    Where that is under three ranks, the tensor-parallel ranks of a stage stand together, as
    (pp, None): Megatron gives them equal parts of every layer.
    """
    own = grid.time["own"]
    told = [(c, info) for c, info in enumerate(grid.ranks) if np.isfinite(own[:, c]).any()]
    narrow: dict[tuple[int, int | None], list[int]] = {}
    wide: dict[tuple[int, int | None], list[int]] = {}
    for column, info in told:
        narrow.setdefault((info.pp, info.tp), []).append(column)
        wide.setdefault((info.pp, None), []).append(column)
    small = {pp for (pp, _), columns in narrow.items() if len(columns) < MAJORITY}
    found = {place: columns for place, columns in narrow.items() if place[0] not in small}
    found |= {place: columns for place, columns in wide.items() if place[0] in small}
    return {place: np.array(columns) for place, columns in found.items()}
