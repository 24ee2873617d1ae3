"""A node, leaf, rack or stage as a whole, or by its parts: whichever is likelier.

One that is slow as a whole is slow by one amount, more or less of it in each part; parts that are
slow by themselves are each slow by their own.
"""

from collections.abc import Mapping, Sequence
from math import comb, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.changepoint import MEDIAN_EFFICIENCY, OUTSIDE_AT_LEAST, column_medians
from lockstep.analyzer.stats.robust_stats import NOTHING, median_of, spread
from lockstep.analyzer.stragglers.model.candidate import Candidate
from lockstep.analyzer.stragglers.model.scopes import Scope

ALIKE = 0.5
"""Relative spread, from rank to rank, of what slows a node, chosen: no host's trouble is shared
evenly."""
FELT = 0.1
"""Share of a rank's slowdown that others of its node feel, of shared memory, air and power; chosen,
as ALIKE is."""
LONGER = 2
"""Times as many windows hold a shape, of which another one saw a part only: one turn of many."""


def whole_or_parts(seen: Sequence[Candidate]) -> list[Candidate]:
    """Each node, leaf, rack and stage as a whole or by its parts, whichever is likelier."""
    kept: list[Candidate] = []
    taken: set[int] = set()
    ranks = {
        int(candidate.scope.columns[0]): candidate for candidate in seen if candidate.scope.is_rank
    }
    # The wider first: a stage or rack, then its nodes, then their ranks.
    for candidate in sorted(seen, key=lambda candidate: -len(candidate.scope.columns)):
        columns = set(candidate.scope.columns.tolist())
        if not columns & taken and (
            candidate.scope.is_rank
            or (
                _is_shared(candidate)
                and not _saw_a_part(candidate, ranks)
                and not _are_apart(candidate, ranks)
            )
        ):
            kept.append(candidate)
            taken |= set() if candidate.scope.is_rank else columns
    return kept


def _is_shared(candidate: Candidate) -> bool:
    """Whether all parts by one shared amount are likelier than some of them, each by its own.

    Parts of a node are its ranks, of a stage its nodes. What is left of the rises d is Gaussian: of
    healthy parts with the error of a rise, of slow ones with ALIKE of their mean beside it. What
    their noise has in common (`alike_noise`) is an error that all of them share: it makes no rise
    of one amount, and of a few that are slow by themselves the others rise or fall together. A part
    that is slow for itself costs the choice among all, and its size is known as little as the
    largest rise.
    """
    rises, everybody = candidate.rises, candidate.table.ranks.shape[1]
    parts: Sequence[NDArray[np.int64]] = each_rank(candidate.scope)
    if candidate.scope.stage is not None or candidate.scope.part is not None:
        nodes = np.array(
            [candidate.table.grid.ranks[c].node for c in candidate.scope.columns.tolist()]
        )
        rises = np.array([median_of(rises[nodes == node]) for node in np.unique(nodes)])
        parts = [candidate.scope.columns[nodes == node] for node in np.unique(nodes)]
        everybody = len({info.node for info in candidate.table.grid.ranks})
    rises = np.sort(rises)[::-1]
    count, average = len(rises), float(rises.mean())
    if not average > 0:
        return False
    error = _errors(candidate, parts)
    wide = max(float(rises[0]), error.of_one)
    choice = float(np.log(everybody))
    shared = _by_one_amount(rises, error)
    some = [
        _by_their_own(rises, slow, felt, error) - slow * (np.log(wide) + choice)
        for slow in range(1, count + 1)
        for felt in (0.0, FELT * float(rises[0]))
    ]
    if candidate.scope.part is not None:
        # Whoever drains a leaf drains all of its nodes: all but some of them is another choice.
        some += [
            _by_one_amount(rises[:slow], error) + _by_their_own(rises, slow, felt, error)
            - choice - log(comb(count, slow))
            for slow in range(1, count)
            for felt in (0.0, FELT * float(rises[0]))
        ]  # fmt: skip
    return bool(shared - choice > max(some))


class _Errors(NamedTuple):
    """Of the rise of a part: all of it, what is its own, and what all parts have in common."""

    of_one: float
    own: float
    common: float


def each_rank(scope: Scope) -> list[NDArray[np.int64]]:
    """The columns of a scope, one by one: of a node the parts are its ranks."""
    return [scope.columns[index : index + 1] for index in range(len(scope.columns))]


def _errors(candidate: Candidate, parts: Sequence[NDArray[np.int64]]) -> _Errors:
    """Of the middle of n parts the variance is `common + 1 / n of own`, and of one part both."""
    middle = candidate.shift.error**2
    of_one = middle / alike_noise(candidate, parts)
    common = max(middle - of_one / len(parts), 0.0) / (1.0 - 1.0 / len(parts))
    return _Errors(*np.sqrt([of_one, of_one - common, common]).tolist())


def alike_noise(candidate: Candidate, parts: Sequence[NDArray[np.int64]]) -> float:
    """Variance of the middle of n parts over that of one: 1 / n where nothing is in common.

    By the blocks in which the scope is not high; by all, where these are too few.
    """
    cells = candidate.table.view(candidate.groups).ranks
    series = np.column_stack([column_medians(cells[:, columns].T) for columns in parts])
    calm = series[~candidate.blocks_high]
    calm = calm if len(calm) >= OUTSIDE_AT_LEAST else series
    calm = calm - column_medians(calm)
    of_one = median_of(spread(calm, 0))
    middle = float(spread(column_medians(calm.T)))
    ratio = min(middle / max(of_one, NOTHING), 1.0) / MEDIAN_EFFICIENCY
    return max(ratio**2, 1.0 / len(parts))


def _by_one_amount(rises: FloatGrid, error: _Errors) -> float:
    """Log likelihood of the rises of those that share one amount, each more or less of it."""
    spread = float(np.hypot(error.own, ALIKE * rises.mean()))
    return -float(((rises - rises.mean()) ** 2).sum()) / (2 * spread**2) - len(rises) * float(
        np.log(spread)
    )


def _by_their_own(rises: FloatGrid, slow: int, felt: float, error: _Errors) -> float:
    """Log likelihood of the rises of those that are not slow themselves.

    None, or what neighbours feel of a slow one: from nothing to a small share of it, evenly. And
    what their noise has in common: of n the mean has the variance `own / n + common`.
    """
    rest, own = rises[slow:], float(np.hypot(error.own, felt))
    if not len(rest):
        return 0.0
    average, together = float(rest.mean()), float(np.hypot(own, np.sqrt(len(rest)) * error.common))
    return (
        -float(((rest - average) ** 2).sum()) / (2 * own**2)
        - len(rest) * average**2 / (2 * together**2)
        - (len(rest) - 1) * float(np.log(own))
        - float(np.log(together))
    )


def _saw_a_part(candidate: Candidate, ranks: Mapping[int, Candidate]) -> bool:
    """Whether one of its ranks shows for itself what is longer, and further beyond chance."""
    mine = [ranks[c] for c in candidate.scope.columns.tolist() if c in ranks]
    return any(
        each.windows >= LONGER * candidate.windows and each.gain > candidate.gain for each in mine
    )


def _are_apart(candidate: Candidate, ranks: Mapping[int, Candidate]) -> bool:
    """Whether what each rank of a group shows for itself explains it much better than one for all.

    By what they leave, as of Laplace noise: n log(left / left), against the choices that they cost.
    """
    mine = {c: ranks[c] for c in candidate.scope.columns.tolist() if c in ranks}
    if not mine or any(each.groups is not candidate.groups for each in mine.values()):
        return False
    cells = candidate.table.view(candidate.groups).ranks
    shared = sum(_left(cells[:, c], candidate.blocks_high) for c in mine)
    apart = sum(_left(cells[:, c], candidate.blocks_high) for c, candidate in mine.items())
    known = int(np.isfinite(cells[:, list(mine)]).sum())
    gain = known * float(np.log(max(shared, NOTHING) / max(apart, NOTHING)))
    return gain > len(mine) * float(np.log(len(cells) ** 2 / 2 * cells.shape[1]))


def _left(values: FloatGrid, inside: NDArray[np.bool_]) -> float:
    """Absolute deviations of (B,) from its levels inside and outside some blocks."""
    sides = (values[side & np.isfinite(values)] for side in (inside, ~inside))
    return sum(float(np.abs(each - median_of(each)).sum()) for each in sides if each.size)
