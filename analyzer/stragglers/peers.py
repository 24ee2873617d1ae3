"""Who the peers of a rank are, and how far it is from them: one definition for every screen.

Peers do the same work at the same time: the ranks of one run, pipeline stage and tensor-parallel
part, of one GPU model and role where these are known; all parts of a stage where one of them has
under MAJORITY ranks (docs/method/peers.md, `lockstep.analyzer.stats.peer_groups`). A rank is
compared with the median of the others. It is none of its own peers.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.peer_groups import MAJORITY, others_median, same_work


def group_numbers(
    places: Sequence[tuple[Hashable, int]], counted: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """(R,) number of each rank's group of peers; -1 of ranks that do not count.

    Args:
        places: Of each rank its run and stage, and its tensor-parallel part.
        counted: (R,) who counts; None = all.
    """
    counted = np.ones(len(places), dtype=bool) if counted is None else counted
    numbers = np.full(len(places), -1, dtype=np.int64)
    for number, columns in enumerate(same_work(places, counted).values()):
        numbers[columns] = number
    return numbers


def over_peers(values: FloatGrid, group: NDArray[np.int64]) -> FloatGrid:
    """(..., R) value over the median of the others of the group at the same time.

    NaN where under MAJORITY of the group reported, or where that median is not above 0.

    Args:
        values: (..., R), as own time; NaN = not known.
        group: (R,) number of each rank's group; below 0 = compared with nobody.
    """
    ratio = np.full(values.shape, np.nan)
    for columns in same_size(group):
        own = values[..., columns]
        usual = others_median(own, -1)
        known = np.isfinite(own).sum(axis=-1, keepdims=True) >= MAJORITY
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio[..., columns] = np.where(known & (usual > 0), own / usual, np.nan)
    return ratio


def same_size(group: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """The columns of all groups, as one (groups, size) array for each size of group.

    Args:
        group: (R,) number of each rank's group; below 0 = compared with nobody.
    """
    order = np.argsort(group, kind="stable")
    order = order[group[order] >= 0]
    _, first, size = np.unique(group[order], return_index=True, return_counts=True)
    return [
        order[first[size == each][:, None] + np.arange(each)] for each in np.unique(size).tolist()
    ]
