"""A possible effect: one scope, one shape, how large and how far beyond chance."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.analyzer.stats.changepoint import (
    FALSE_ALARM,
    Blocks,
    Shift,
    column_medians,
    freedom_of,
)
from lockstep.analyzer.stats.robust_stats import MOSTLY, NOTHING
from lockstep.analyzer.stats.robust_stats import mean as means
from lockstep.analyzer.stragglers.model.scopes import Scope, Table, View

OWN_SHARE = MOSTLY
"""Of a difference between two at least this share must be in the suspect's own past."""
CAP = float(np.log(2.5))
"""A window counts for at most so much: one pause of a minute is no row of bursts."""
Edges = tuple[int, int | None]
"""First window, and the one after the last; None = to the end."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one shape says of one scope.

    Attributes:
        table: Where the scope stands.
        column: Of the scope in it.
        groups: The blocks that were looked at.
        shift: Its span in them.
        rises: (k,) of each rank of the scope, log own time in the span over the rest.
        highs: (k,) the level in it.
        freedom: Degrees of freedom of the score.
        others: (S,) the scores of all scopes in the same windows; empty where chance is known
            otherwise.
        edges: First window and the one after the last, where they are known better than by one
            rank.
        by_mean: Whether it is the mean that is high, and not the middle.
        high: The windows in which it is high, of what comes and goes; None = all of its span.
    """

    table: Table
    column: int
    groups: Blocks
    shift: Shift
    rises: FloatGrid
    highs: FloatGrid
    freedom: float
    others: FloatGrid
    edges: Edges | None = None
    by_mean: bool = False
    high: NDArray[np.int64] | None = None

    @property
    def blocks(self) -> NDArray[np.bool_]:
        """(B,) whether a block is in its span."""
        positions = np.arange(len(self.groups))
        return np.asarray((positions >= self.shift.first) & (positions < self.shift.last))

    @property
    def blocks_high(self) -> NDArray[np.bool_]:
        """(B,) whether it is high in a block, by most of its windows."""
        if self.high is None:
            return self.blocks
        shares = [np.isin(members, self.high).mean() for members in self.groups.members]
        return np.asarray(self.blocks & (np.array(shares) >= 1 / 2))

    @property
    def since_start(self) -> bool:
        """Whether it never began: it is there all along, or comes again as early as ever."""
        if self.high is None or self.edges is None or not self.by_mean:
            return bool(self.blocks.all())
        first, last = self.edges
        turns = self.high[(self.high >= first) & (self.high < (np.inf if last is None else last))]
        apart = np.diff(turns).max(initial=0)
        # Its span is where most of it is, which may leave out its first turns.
        for earlier in self.high[self.high < first][::-1]:
            if first - earlier > apart:
                break
            first = earlier
        return bool(first - self.table.usable[0] <= apart)

    @property
    def scope(self) -> Scope:
        """Who."""
        return self.table.scopes[self.column]

    @property
    def windows(self) -> int:
        """How many windows it spans."""
        members = self.groups.members
        if self.edges is None:
            return sum(map(len, members[self.shift.first : self.shift.last]))
        first, last = self.edges
        return (int(members[-1][-1]) + 1 if last is None else last) - first

    @property
    def windows_high(self) -> int:
        """In how many it is high: of what comes and goes a part of those that it spans."""
        return self.windows if self.high is None else len(self.high)

    @property
    def gain(self) -> float:
        """Student's log likelihood ratio to nothing, penalised: above 0 it is beyond chance."""
        return float(
            self._log_likelihood(self.shift.score) - self._log_likelihood(self.shift.critical)
        )

    @property
    def log_chance(self) -> float:
        """Log of the chance that nobody is slow, corrected for all that was tried."""
        return float(np.log(FALSE_ALARM)) - max(self.gain, 0.0)

    def place_confidence(self, accused: Collection[int]) -> float:
        """Probability that it is this scope, and neither another one nor nobody.

        Others: the likelihood of the rise of each in the same windows, with the same error. Nobody:
        the bound -e p ln p on the Bayes factor of a p-value (Sellke, Bayarri and Berger, The
        American Statistician 2001), of which p is corrected for all that was tried.

        Args:
            accused: Columns of all ranks that are slow: who is slow as well is no alternative.
        """
        chance = float(np.exp(self.log_chance))
        nobody = -np.e * chance * np.log(chance) if chance > 0 else 0.0
        free = [
            score
            for score, scope in zip(self.others, self.table.scopes, strict=False)
            if not set(scope.columns.tolist()) & set(accused)
        ]
        likelier = self._log_likelihood(np.maximum(free, 0.0))
        others = np.exp(likelier - self._log_likelihood(self.shift.score)).sum()
        return float(1.0 / (1.0 + nobody + others))

    def _log_likelihood(self, score: Any) -> Any:
        return _student(np.square(score), self.freedom)


def as_candidate(
    table: Table,
    view: View,
    shift: Shift,
    edges: Edges | None = None,
    *,
    by_mean: bool = False,
) -> Candidate:
    """Of a span in a view of the table, with how much everybody else rose in it."""
    rest, middles = view.rest, _column_means if by_mean else column_medians
    inside = np.zeros(len(rest), dtype=bool)
    inside[shift.first : shift.last] = True
    mine = view.ranks[:, table.scopes[shift.column].columns]
    highs, everybody = middles(mine[inside]), middles(rest[inside])
    rises = highs
    if not inside.all():
        rises, everybody = (
            now - middles(cells[~inside]) for now, cells in ((highs, mine), (everybody, rest))
        )
    freedom = shift.freedom or freedom_of(len(view.groups), len(table.scopes))
    return Candidate(
        table, shift.column, view.groups, shift, rises, highs, freedom,
        np.nan_to_num(everybody) * shift.score / max(shift.effect, NOTHING), edges, by_mean,
    )  # fmt: skip


def _column_means(cells: FloatGrid) -> FloatGrid:
    return means(cells, 0)


def _student(square: Any, freedom: float) -> Any:
    """Log likelihood ratio of a squared score against 0; Gaussian without end of freedom."""
    if np.isinf(freedom):
        return square / 2
    return (freedom + 1) / 2 * np.log1p(square / freedom)
